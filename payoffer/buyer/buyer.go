// Package buyer pays what others sell by x402 version 2: scheme "exact", an
// EIP-3009 authorization for USDC on a known network.
//
// Whoever has a signed authorization can spend it until it expires. So it is
// stored on disk before it is sent, the same bytes are sent until the answer is
// final, and no second one is signed for the same purchase while the first may
// still be spent. What a seller says about the token and the amount is compared
// with the table of networks and with the payer's limit.
package buyer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Buyer is a client of sellers. It is not safe for concurrent use.
type Buyer struct {
	// Transport carries all calls; nil means a bounded one.
	Transport http.RoundTripper
	// Max is the most to pay at once, in atomic units of USDC (1e-6 USDC).
	Max int64
	// Network is the network to pay on, by its name or CAIP-2 id; empty means the
	// first known one of the quote.
	Network string
	// Wait is how long a payment without a final answer is sent again.
	Wait time.Duration
	// Progress receives one sentence for each attempt without a final answer; nil
	// means none.
	Progress func(sentence string)
}

// Target is what is bought: a method and a URL.
type Target struct {
	Method string
	url    *url.URL
}

// NewTarget parses the address of a resource. The error does not repeat it.
func NewTarget(method, address string) (Target, error) {
	if method != http.MethodGet && method != http.MethodPost {
		return Target{}, errors.New("the method must be GET or POST")
	}
	u, err := offer.ParseURL(address)
	if err != nil {
		return Target{}, err
	}
	u.Fragment = ""
	return Target{method, u}, nil
}

// Origin is the scheme, host and port of the URL.
func (t Target) Origin() string { return offer.Origin(t.url) }

// URL is the normalized address.
func (t Target) URL() string { return t.Origin() + t.url.RequestURI() }

const (
	quoteTimeout = 30 * time.Second
	// payTimeout is longer because facilitators take up to a minute to settle.
	payTimeout = 90 * time.Second

	// The most that is read, in bytes.
	maxHeader = 64 << 10
	maxQuote  = 256 << 10
	maxAnswer = 16 << 20
)

var boundedTransport = func() http.RoundTripper {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxHeader
	return transport
}()

// answer is a response of a seller.
type answer struct {
	status int
	header http.Header
	body   []byte
	// cut says why the body is not complete; nil if it is.
	cut error
}

// send sends one request, with a payment unless that is empty. The error means
// that there was no status, and does not repeat the URL.
func (b *Buyer) send(ctx context.Context, t Target, payment string, timeout time.Duration, limit int64) (*answer, error) {
	request, err := http.NewRequestWithContext(ctx, t.Method, t.URL(), nil)
	if err != nil {
		return nil, errors.New("the URL cannot be requested")
	}
	request.Header.Set("Accept", "*/*")
	request.Header.Set("User-Agent", "caddy-pay-offer")
	if payment != "" {
		request.Header.Set(x402.HeaderSignature, payment)
	}
	client := http.Client{Transport: b.Transport, Timeout: timeout, CheckRedirect: source.NoRedirect}
	if b.Transport == nil {
		client.Transport = boundedTransport
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
