package announce

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// deliveryTimeout bounds one try (Standard Webhooks, request timeouts).
	deliveryTimeout = 15 * time.Second
	// stopTimeout bounds a try that is under way when Run is to end.
	stopTimeout = 3 * time.Second

	secretPrefix = "whsec_"
	// secretLeast and secretMost bound a secret, in bytes (Standard Webhooks,
	// signature scheme).
	secretLeast, secretMost = 24, 64
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
	codeHandler     = "handler_failed"
	codeUnwritable  = "unwritable" // the announcement has no form in which it can be sent
	codeLedger      = "ledger_unavailable"
)

// failure is why a receiver did not take an event; the zero value says that it
// did.
type failure struct {
	code   string
	status int           // that of the answer, 0 without one
	wait   time.Duration // how long the receiver asked to be left alone
}

// reason is the code for an operator, with the status of the answer if there was
// one.
func (f failure) reason() string {
	if f.status == 0 {
		return f.code
	}
	return fmt.Sprintf("%s %d", f.code, f.status)
}

// ofEvent reports whether it may be this event that the receiver does not take,
// and not any event at all: a receiver that cannot be reached, is overloaded or
// broken (5xx), moved or gone has trouble of its own, and no event is to blame.
func (f failure) ofEvent() bool {
	return f.code == codeHandler || f.code == codeUnwritable || f.code == codeRefused && f.status != http.StatusRequestTimeout && f.status != http.StatusTooEarly
}

// webhook sends events to one address.
type webhook struct {
	url, host string
	keys      [][]byte // each of them signs
	client    source.Client
	now       func() time.Time
}

func newWebhook(s Sink, client source.Client, now func() time.Time) (*webhook, error) {
	u, err := offer.ParseURL(s.URL)
	if err != nil {
		return nil, err
	}
	w := &webhook{url: s.URL, host: u.Host, client: client, now: now}
	for _, secret := range s.Secrets {
		key, err := parseSecret(secret)
		if err != nil {
			return nil, fmt.Errorf("host %q: %w", u.Host, err)
		}
		if key != nil {
			w.keys = append(w.keys, key)
		}
	}
	return w, nil
}

// deliver tries once. Whatever the answer holds, its status has said it all.
func (w *webhook) deliver(ctx context.Context, e event) failure {
	body, err := e.body()
	if err != nil {
		return failure{code: codeUnwritable}
	}
	ctx, cancel := lastly(ctx)
	defer cancel()
	_, err = w.client.Stream(ctx, source.Request{URL: w.url, Header: w.header(e.id, body), Body: body},
		func(io.Reader) error { return nil })
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

// header is that of Standard Webhooks, signed anew at each try so that receivers
// may refuse what is old.
func (w *webhook) header(id string, body []byte) http.Header {
	at := w.now().Unix()
	h := http.Header{
		"User-Agent": {"caddy-pay-offer"}, "Webhook-Id": {id}, "Webhook-Timestamp": {strconv.FormatInt(at, 10)},
	}
	var signatures []string
	for _, key := range w.keys {
		signatures = append(signatures, sign(key, id, at, body))
	}
	if len(signatures) > 0 {
		h.Set("Webhook-Signature", strings.Join(signatures, " "))
	}
	return h
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

// parseSecret returns the key that signs, nil for an empty secret. Errors do
// not repeat the secret.
func parseSecret(secret string) ([]byte, error) {
	if secret == "" {
		return nil, nil
	}
	encoded, standard := strings.CutPrefix(secret, secretPrefix)
	if !standard {
		if n := utf8.RuneCountInString(secret); n < secretLeast {
			return nil, fmt.Errorf("the secret has %d characters and needs at least %d; make one with: echo whsec_$(openssl rand -base64 32)", n, secretLeast)
		}
		return []byte(secret), nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("what follows whsec_ in the secret is not padded standard base64; make one with: echo whsec_$(openssl rand -base64 32)")
	}
	if len(key) < secretLeast || len(key) > secretMost {
		return nil, fmt.Errorf("the secret after whsec_ is the base64 of %d bytes and must be that of %d to %d; make one with: echo whsec_$(openssl rand -base64 32)", len(key), secretLeast, secretMost)
	}
	return key, nil
}

// sign returns one signature of the header webhook-signature, which has one for
// each key; at is in Unix seconds.
func sign(key []byte, id string, at int64, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.", id, at)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
