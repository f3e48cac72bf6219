// Package buyer pays what others sell by x402 version 2: scheme "exact", an
// EIP-3009 authorization for USDC on a known network.
//
// A signed authorization is money in the hands of whoever has it, until it ends.
// So it is kept on disk before it is sent, sent again as it is until there is a
// final answer, and no second one is signed for the same purchase while the first
// may still be spent. Nothing that a server says of a token, an amount or a
// signature is believed before it was compared with what is known here.
package buyer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
)

// Buyer is a client of sellers. It is not safe for concurrent use.
type Buyer struct {
	// Transport carries all calls; nil means one with bounds of its own.
	Transport http.RoundTripper
	// Max is the most that is paid at once, in atomic units of USDC.
	Max int64
	// Network is the one to pay on, by its name or CAIP-2 id; empty for the first
	// that the seller names and that is known here.
	Network string
	// Wait is how long a payment without a final answer is sent again.
	Wait time.Duration
	// Told is given what happens while a payment is waited for, one sentence each.
	Told func(sentence string)

	keys *signature.Resolver
}

// Target is what is bought: a method and a URL.
type Target struct {
	Method string
	url    *url.URL
}

// NewTarget reads the address of a resource. The error does not repeat it.
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

// Origin is that of the URL: who is paid is asked there alone.
func (t Target) Origin() string { return offer.Origin(t.url) }

// URL is the address in one form.
func (t Target) URL() string { return t.Origin() + t.url.RequestURI() }

// Quote asks what the target costs. It sends no payment and needs no key.
func (b *Buyer) Quote(ctx context.Context, t Target) (*Quote, error) {
	a, err := b.send(ctx, t, "", quoteTimeout, maxQuote)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be asked for its price: %w", offer.Host(t.Origin()), err)
	}
	if err := a.isQuote(); err != nil {
		return nil, err
	}
	q, err := parseQuote(a.header, a.body)
	if err != nil {
		return nil, err
	}
	if q.Terms, err = q.choose(b.Network, b.Max); err != nil {
		return nil, err
	}
	q.Vouch = b.vouch(ctx, t, q)
	return q, nil
}

// resolver finds the keys of sellers.
func (b *Buyer) resolver() *signature.Resolver {
	if b.keys == nil {
		b.keys = signature.NewResolver(b.Transport)
	}
	return b.keys
}

// tell passes a sentence on, which may quote a stranger.
func (b *Buyer) tell(format string, parts ...any) {
	if b.Told != nil {
		b.Told(fmt.Sprintf(format, parts...))
	}
}
