package buyer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	// quoteTimeout is how long a seller may take to name the price.
	quoteTimeout = 30 * time.Second
	// payTimeout is how long one may take to settle: facilitators take up to a
	// minute.
	payTimeout = 90 * time.Second

	// maxHeader, maxQuote and maxAnswer bound an answer's header, that of a quote
	// and that which was paid for, in bytes.
	maxHeader = 64 << 10
	maxQuote  = 256 << 10
	maxAnswer = 16 << 20
)

// bounded is the transport of a Buyer that was given none.
var bounded = func() http.RoundTripper {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxHeader
	return transport
}()

// answer is what a seller said.
type answer struct {
	status int
	header http.Header
	body   []byte
	// cut says why there is less of the body than was sent, or is nil.
	cut error
}

// send asks for the target once, with a payment unless it is empty. An error is a
// connection that failed before there was a status, and does not repeat the URL.
func (b *Buyer) send(ctx context.Context, t Target, payment string, timeout time.Duration, limit int64) (*answer, error) {
	request, err := http.NewRequestWithContext(ctx, t.Method, t.URL(), nil)
	if err != nil {
		return nil, errors.New("its URL cannot be asked for")
	}
	request.Header.Set("Accept", "*/*")
	request.Header.Set("User-Agent", "caddy-pay-offer")
	if payment != "" {
		request.Header.Set(x402.HeaderSignature, payment)
	}
	client := http.Client{Transport: b.Transport, Timeout: timeout, CheckRedirect: source.NoRedirect}
	if b.Transport == nil {
		client.Transport = bounded
	}
	response, err := client.Do(request)
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = failed.Err
	}
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	a := &answer{status: response.StatusCode, header: response.Header}
	a.body, err = io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil:
		a.cut = errors.New("the connection broke")
	case int64(len(a.body)) > limit:
		a.body, a.cut = a.body[:limit], fmt.Errorf("it is longer than %d bytes", limit)
	}
	return a, nil
}

// isQuote says why an answer without a payment is none.
func (a *answer) isQuote() error {
	switch status := a.status; {
	case status == http.StatusPaymentRequired && a.cut != nil:
		return fmt.Errorf("the quote cannot be read: %w", a.cut)
	case status == http.StatusPaymentRequired:
		return nil
	case status >= 300 && status < 400:
		return fmt.Errorf("it redirects (status %d) to %s, and a payment follows no redirect; give that address if you trust it",
			status, quoted(a.header.Get("Location")))
	case status >= 200 && status < 300:
		return fmt.Errorf("it asks for no payment (status %d); try --method GET or POST if it should", status)
	default:
		return fmt.Errorf("it names no price: it answers with status %d instead of 402; is it the payable URL, and the method that it takes?", status)
	}
}

const (
	// retryEvery is how long a payment without a final answer rests where the
	// seller does not say.
	retryEvery = 5 * time.Second
	// maxRetryAfter bounds what a seller may ask for.
	maxRetryAfter = time.Hour
)

// retryAfter is the pause that the seller asks for. A date in place of seconds is
// nothing that a payment's answer needs.
func (a *answer) retryAfter() time.Duration {
	seconds, err := strconv.ParseUint(a.header.Get("Retry-After"), 10, 31)
	if err != nil {
		return retryEvery
	}
	return min(max(time.Duration(seconds)*time.Second, time.Second), maxRetryAfter)
}
