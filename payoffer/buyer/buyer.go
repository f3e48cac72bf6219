// Package buyer pays sellers by x402 version 2: scheme "exact", an EIP-3009
// authorization for USDC on a known network.
//
// Anyone who has a signed authorization can spend it until it expires. It is therefore
// stored on disk before it is sent, the same bytes are sent until the answer is final,
// and no second one is signed for the same purchase while the first can be spent. The
// token and the amount are checked against the table of networks and the payer's limit.
package buyer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Buyer is a client of sellers. It is not safe for concurrent use.
type Buyer struct {
	// Transport sends the requests; nil means a transport that limits the header size.
	Transport http.RoundTripper
	// Max is the most to pay at once, in atomic units of USDC (1e-6 USDC).
	Max int64
	// Network is the network to pay on, by name or CAIP-2 id; empty means the first known
	// network of the quote.
	Network string
	// Wait is how long a payment without a final answer is sent again.
	Wait time.Duration
	// Progress receives one sentence for each attempt without a final answer; may be nil.
	Progress func(sentence string)
}

// Target is a payable resource: a method and a URL. Without a method the quote decides.
type Target struct {
	Method string
	url    *url.URL

	cookies []*http.Cookie
	accept  string // a media type, empty for all
}

// NewTarget parses the address of a resource. The error does not repeat it.
func NewTarget(method, address string) (Target, error) {
	if method != "" && method != http.MethodGet && method != http.MethodPost {
		return Target{}, fmt.Errorf("the method %.20q is not supported; use GET or POST", method)
	}
	u, err := offer.ParseURL(address)
	if err != nil {
		return Target{}, err
	}
	return Target{Method: method, url: u}, nil
}

// Origin is the scheme, host and port of the URL.
func (t Target) Origin() string { return offer.Origin(t.url) }

// URL is the normalized address, without the fragment.
func (t Target) URL() string { return t.Origin() + t.url.RequestURI() }

const (
	quoteTimeout = 30 * time.Second
	// payTimeout is longer because facilitators take up to a minute to settle.
	payTimeout = 90 * time.Second

	// Size limits of a response, in bytes.
	maxHeader = 64 << 10
	maxQuote  = 256 << 10
	maxAnswer = 16 << 20

	// maxText limits a seller's text, in characters.
	maxText = 300
)

var limitedTransport = func() http.RoundTripper {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxHeader
	transport.DisableKeepAlives = true // on a kept connection, net/http sends a failed GET again
	return transport
}()

// answer is a response of a seller.
type answer struct {
	status int
	header http.Header
	body   []byte
	// incomplete says why the body is not complete; nil if it is.
	incomplete error
}

// send sends one request, with a payment unless it is empty. An error means that there
// was no response, and does not repeat the URL.
func (b *Buyer) send(ctx context.Context, t Target, payment string, timeout time.Duration, limit int64) (*answer, error) {
	request, err := http.NewRequestWithContext(ctx, t.Method, t.URL(), nil)
	if err != nil {
		return nil, errors.New("the URL cannot be requested; write an absolute one, such as https://pay.example.org/v1/sponsor")
	}
	request.Header.Set("Accept", cmp.Or(t.accept, "*/*"))
	request.Header.Set("User-Agent", "caddy-pay-offer")
	for _, cookie := range t.cookies {
		request.AddCookie(cookie)
	}
	if payment != "" {
		request.Header.Set(x402.HeaderSignature, payment)
	}
	client := http.Client{Transport: b.Transport, Timeout: timeout, CheckRedirect: source.NoRedirect}
	if b.Transport == nil {
		client.Transport = limitedTransport
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
		a.incomplete = errors.New("the connection ended early")
	case int64(len(a.body)) > limit:
		a.body, a.incomplete = a.body[:limit], fmt.Errorf("it is longer than the %d bytes that are read", limit)
	}
	return a, nil
}

// Plain turns a seller's text into one line of limited length, without characters that
// control a terminal or change the writing direction.
func Plain(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, ""), unicode.IsSpace), " ")
	var line []rune
	for _, r := range text {
		if len(line) == maxText {
			return string(line[:maxText-1]) + "…"
		}
		if unicode.IsPrint(r) {
			line = append(line, r)
		}
	}
	return string(line)
}

// quoted is a seller's text in quotation marks.
func quoted(text string) string { return strconv.Quote(Plain(text)) }
