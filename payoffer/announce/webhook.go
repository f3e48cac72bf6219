package announce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// deliveryTimeout bounds one try (Standard Webhooks, request timeouts).
	deliveryTimeout = 15 * time.Second
	// stopTimeout bounds a try that is under way when Run is to end.
	stopTimeout = 3 * time.Second
	// maxAnswer is how much of an answer is read, in bytes, for the connection
	// to be used again.
	maxAnswer = 16 << 10
)

// Codes of SinkHealth.LastError: nothing that came from a receiver.
const (
	codeUnreachable = "unreachable"
	codeTimeout     = "timeout"
	codeRedirected  = "redirected"
	codeGone        = "gone"
	codeLimited     = "rate_limited"
	codeRefused     = "refused"      // any other status below 500
	codeServerError = "server_error" // 500 and above
	codeLedger      = "ledger_unavailable"
)

// failure is why a receiver did not take an event; the zero value says that it
// did.
type failure struct {
	code string
	// status is that of the answer, 0 without one.
	status int
	// wait is how long the receiver asked to be left alone.
	wait time.Duration
}

// target takes events.
type target interface {
	deliver(ctx context.Context, e event) failure
}

// emitter raises events of the server.
type emitter func(name string, data map[string]any)

func (emit emitter) deliver(_ context.Context, e event) failure {
	emit(e.kind, e.data)
	return failure{}
}

// webhook sends events to one address.
type webhook struct {
	url, host string
	key       []byte
	client    *http.Client
	now       func() time.Time
}

func newWebhook(s Sink, client *http.Client, now func() time.Time) (*webhook, error) {
	u, err := offer.ParseURL(s.URL)
	if err != nil {
		return nil, err
	}
	key, err := parseSecret(s.Secret)
	if err != nil {
		return nil, fmt.Errorf("host %q: %w", u.Host, err)
	}
	return &webhook{url: s.URL, host: u.Host, key: key, client: client, now: now}, nil
}

// deliver tries once.
func (w *webhook) deliver(ctx context.Context, e event) failure {
	ctx, cancel := lastly(ctx)
	defer cancel()
	request, err := w.request(ctx, e)
	if err != nil {
		return failure{code: codeUnreachable}
	}
	response, err := w.client.Do(request)
	if err != nil {
		return failure{code: transportCode(err)}
	}
	defer response.Body.Close()
	// Whatever it says, the status has said it all.
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer)
	code := statusCode(response.StatusCode)
	if code == "" {
		return failure{}
	}
	return failure{code, response.StatusCode, retryAfter(response.Header, w.now())}
}

// lastly bounds one try. The end of ctx leaves it a moment, for a receiver that
// took an event and could not say so gets it again.
func lastly(ctx context.Context) (context.Context, context.CancelFunc) {
	try, cancel := context.WithTimeout(context.WithoutCancel(ctx), deliveryTimeout)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(stopTimeout, cancel) })
	return try, func() { stop(); cancel() }
}

// request has the headers of Standard Webhooks, signed anew at each try so that
// receivers may refuse what is old.
func (w *webhook) request(ctx context.Context, e event) (*http.Request, error) {
	body, err := e.body()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	at := w.now().Unix()
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "caddy-pay-offer")
	request.Header.Set("Webhook-Id", e.id)
	request.Header.Set("Webhook-Timestamp", strconv.FormatInt(at, 10))
	if w.key != nil {
		request.Header.Set("Webhook-Signature", sign(w.key, e.id, at, body))
	}
	return request, nil
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

func transportCode(err error) string {
	var netErr net.Error
	if errors.As(err, &netErr) && netErr.Timeout() {
		return codeTimeout
	}
	return codeUnreachable
}

// noRedirect: who answers elsewhere was not configured to hear of payments.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
