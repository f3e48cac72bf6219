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
	// deliveryTimeout bounds one try (Standard Webhooks, request timeouts).
	deliveryTimeout = 15 * time.Second
	// stopTimeout bounds a try that is under way when Run is to end.
	stopTimeout = 3 * time.Second
)

// Codes of SinkHealth.LastError: nothing that came from a receiver.
const (
	codeUnreachable = "unreachable"
	codeTimeout     = "timeout"
	codeRedirected  = "redirected"
	codeGone        = "gone"
	codeLimited     = "rate_limited"
	codeRefused     = "refused"      // any other status below 500, or a reply 5yz to a message
	codeServerError = "server_error" // 500 and above
	codeHandler     = "handler_failed"
	// Of mail servers: a reply 4yz, no STARTTLS where it is needed, and a login that
	// is refused or not offered.
	codeDeferred     = "deferred"
	codeUnencrypted  = "unencrypted"
	codeUnauthorized = "unauthorized"
	codeLedger       = "ledger_unavailable"
)

// failure is why a receiver did not take an event; the zero value says that it
// did.
type failure struct {
	code   string
	status int           // that of the answer, 0 without one
	wait   time.Duration // how long the receiver asked to be left alone
}

// ofEvent reports whether it may be this event that the receiver does not take,
// and not any event at all: a receiver that cannot be reached, is overloaded or
// broken (5xx), moved or gone has trouble of its own, and no event is to blame.
func (f failure) ofEvent() bool {
	return f.code == codeHandler || f.code == codeRefused && f.status != http.StatusRequestTimeout && f.status != http.StatusTooEarly
}

// post tries once to make a receiver take a request. Whatever the answer holds, its
// status has said it all.
func post(ctx context.Context, client source.Client, r source.Request) failure {
	ctx, cancel := lastly(ctx)
	defer cancel()
	_, err := client.Stream(ctx, r, func(io.Reader) error { return nil })
	var failed *source.Error
	switch {
	case !errors.As(err, &failed):
		return failure{}
	case failed.Timeout():
		return failure{code: codeTimeout}
	case failed.Status == 0:
		return failure{code: codeUnreachable}
	}
	if code := statusCode(failed.Status); code != "" {
		return failure{code, failed.Status, failed.Wait}
	}
	return failure{}
}

// lastly is a context for one try. The end of ctx leaves it a moment, for a
// receiver that took an event and could not say so gets it again.
func lastly(ctx context.Context) (context.Context, context.CancelFunc) {
	try, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(stopTimeout, cancel) })
	return try, func() { stop(); cancel() }
}

// statusCode is the code of an answer, empty for one that took the event.
func statusCode(status int) string {
	switch {
	case status >= 200 && status <= 299:
		return ""
	case status >= 300 && status <= 399:
		return codeRedirected
	case status == http.StatusGone:
		return codeGone
	case status == http.StatusTooManyRequests:
		return codeLimited
	case status >= 500:
		return codeServerError
	default:
		return codeRefused
	}
}
