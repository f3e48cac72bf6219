package buyer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// clockSkew is how far a seller's clock may be from ours.
const clockSkew = 5 * time.Minute

// Vouch says whether the domain of the URL has signed something: an offer, or a
// receipt.
type Vouch struct {
	// Verified says that its own key has, and about this very thing.
	Verified bool
	// Wrong says that there is a signature in its name that does not hold.
	Wrong bool
	// Words tell it, as the end of a sentence.
	Words string
}

// vouch finds the signed offer of the chosen terms.
func (b *Buyer) vouch(ctx context.Context, t Target, q *Quote) Vouch {
	ctx, cancel := context.WithTimeout(ctx, quoteTimeout)
	defer cancel()
	v := Vouch{Words: "not signed"}
	for _, compact := range q.signed[:min(len(q.signed), x402.MaxArtifacts)] {
		// There is an offer for each way to pay.
		if next := b.check(ctx, t, compact, func(s x402.Signed) error { return q.isOffered(s, time.Now()) }); next.Verified {
			return next
		} else if !v.Wrong {
			v = next
		}
	}
	return v
}

// isOffered says why a signed offer is not one of these terms.
func (q *Quote) isOffered(s x402.Signed, now time.Time) error {
	o := s.Offer
	switch {
	case o == nil:
		return errors.New("it is no offer")
	case o.Scheme != schemeExact || o.Network != q.Network.CAIP2() || !strings.EqualFold(o.Asset, q.Network.USDC) ||
		!strings.EqualFold(o.PayTo, q.PayTo) || o.Amount != fmt.Sprint(q.Atomic):
		return errors.New("the signed offer has other terms than the quote")
	case o.ValidUntil != 0 && time.Unix(o.ValidUntil, 0).Before(now):
		return errors.New("the signed offer has ended")
	}
	return nil
}

// check verifies a statement by the key of the target's own host, and then what it
// says. No other host is asked for a key: it would vouch for nothing here.
func (b *Buyer) check(ctx context.Context, t Target, compact string, says func(x402.Signed) error) Vouch {
	host := offer.Host(t.Origin())
	if format, _, other := strings.Cut(compact, ":"); other {
		return Vouch{Words: "signed in the format " + quoted(format) + ", which is not read here"}
	}
	signed, err := x402.ParseSigned(compact)
	switch {
	case err != nil:
		return Vouch{Wrong: true, Words: "the signature cannot be read: " + Plain(err.Error())}
	case signed.Origin != t.Origin() || !strings.HasPrefix(signed.KeyID, offer.DIDWeb(t.Origin())+"#"):
		return Vouch{Words: fmt.Sprintf("signed by %s for %s, which proves nothing about %s", quoted(signed.KeyID), quoted(signed.Origin), host)}
	}
	err = signed.Verify(ctx, b.resolver())
	if err == nil {
		err = says(signed)
	}
	switch {
	case err == nil:
		return Vouch{Verified: true, Words: "signed by " + host}
	case errors.Is(err, x402.ErrNotVerified):
		return Vouch{Words: "the signature could not be checked: " + Plain(err.Error())}
	default:
		return Vouch{Wrong: true, Words: "the signature in the name of " + host + " does not hold: " + Plain(err.Error())}
	}
}
