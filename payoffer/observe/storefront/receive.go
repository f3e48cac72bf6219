package storefront

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// Receive takes a notice of the shop. Notices are unsigned, so the body is not
// read: a notice only has Run read the list early.
func (o *Observer) Receive(_ context.Context, d observe.Delivery) (observe.Verdict, string) {
	if detail, admitted := o.Admit(d.Header, d.Secret); !admitted {
		return observe.Unverified, detail
	}
	const read, unread = "the sale is recorded once the shop's API lists it", "not recorded: the storefront has no token"
	o.hook.Note(observe.Ignored, read)
	if !o.reads() {
		return observe.Ignored, unread
	}
	o.noticed.Store(true)
	o.loop.Wake()
	return observe.Ignored, read
}

// Admit compares the secret of the address, in a time that does not depend on it
// or its length. A secret that is long enough may be an older one that the shop
// still uses; a short one is a guess.
func (o *Observer) Admit(_ http.Header, secret string) (detail string, admitted bool) {
	given := sha256.Sum256([]byte(secret))
	if o.hooked && subtle.ConstantTimeCompare(given[:], o.secret[:]) == 1 {
		return "", true
	}
	const other = "the address is not the one that was given to the shop"
	if len(secret) >= minSecret {
		o.hook.Note(observe.Unverified, other)
	}
	return other, false
}
