package announce

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// deliveryTimeout bounds one attempt (Standard Webhooks, request timeouts).
	deliveryTimeout = 15 * time.Second
	// stopTimeout bounds an attempt in progress at the end of the process.
	stopTimeout = 3 * time.Second
)

// Codes of EndpointHealth.LastError. None contains text of an endpoint.
const (
	codeUnreachable  = "unreachable"
	codeTimeout      = "timeout"
	codeRedirected   = "redirected"
	codeGone         = "gone"
	codeLimited      = "rate_limited"
	codeRefused      = "refused"      // any other status below 500, or a reply 5yz to a message
	codeServerError  = "server_error" // 500 and above
	codeReloaded     = "reloaded"     // the configuration ended meanwhile
	codeDeferred     = "deferred"     // a mail server replied 4yz
	codeUnencrypted  = "unencrypted"  // a mail server does not offer STARTTLS
	codeUnauthorized = "unauthorized" // a mail server refuses or does not offer the login
	codeLedger       = "ledger_unavailable"
)

// hints say what the operator can do about a failure.
var hints = map[string]string{
	codeUnreachable: "check the host name and the firewall", codeTimeout: "the endpoint must respond within 15 seconds",
	codeRedirected: "configure the address to which it redirects", codeGone: "remove the endpoint if it has ended",
	codeLimited: "raise the endpoint's rate limit if this lasts", codeRefused: "check the endpoint's address, secret and log",
	codeServerError: "look at the endpoint's log", codeReloaded: "nothing: the next configuration emits it",
	codeDeferred: "look at the mail server's log if this lasts", codeUnencrypted: "use port 465 with 'tls implicit'", codeUnauthorized: "check user and password",
}

// failure is why an endpoint did not acknowledge an event; zero if it did.
type failure struct {
	code   string
	status int           // of the answer; 0 without one
	wait   time.Duration // the pause that the endpoint asked for
}

// concernsEvent reports whether the cause may be this one event. A redirect, 410, 429 or
// 5xx concerns the endpoint: any other event would fail too.
func (f failure) concernsEvent() bool {
	return f.code == codeRefused && f.status != http.StatusRequestTimeout && f.status != http.StatusTooEarly
}

// client sends requests to endpoints.
func (c *Config) client() source.Client {
	return source.Client{Transport: c.Transport, Timeout: deliveryTimeout}
}

// post sends one request. Only the status of the response matters.
func post(ctx context.Context, client source.Client, r source.Request) failure {
	_, err := client.Stream(ctx, r, func(io.Reader) error { return nil })
	failed := (*source.Error)(nil)
	switch {
	case !errors.As(err, &failed):
		return failure{}
	case failed.Timeout():
		return failure{code: codeTimeout}
	case failed.Status == 0:
		return failure{code: codeUnreachable}
	case failed.Status/100 == 2:
		return failure{}
	}
	f := failure{codeRefused, failed.Status, failed.Wait}
	switch {
	case failed.Status/100 == 3:
		f.code = codeRedirected
	case failed.Status == http.StatusGone:
		f.code = codeGone
	case failed.Status == http.StatusTooManyRequests:
		f.code = codeLimited
	case failed.Status >= 500:
		f.code = codeServerError
	}
	return f
}

// withGrace returns a context that ends after ctx: an attempt in progress at a reload can end, so that the event is not
// delivered twice. At the end of the process it has only stopTimeout.
func (c *Config) withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	attempt, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		grace := deliveryTimeout
		if c.Exiting == nil || c.Exiting() {
			grace = stopTimeout
		}
		time.AfterFunc(grace, cancel)
	})
	return attempt, func() { stop(); cancel() }
}
