package storefront

import (
	"context"
	"errors"
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// maxNamed bounds the sales that wait to be read because a notice named them.
// More are found by the next reading of the list.
const maxNamed = 1000

// Receive takes one of the shop's notices. Every kind of notice holds the whole
// sale, so each is recorded as what it is: somebody's assertion of such a sale
// and of what became of it. It moves no receipt that was read from the shop;
// with a token it has Run read the sale there at once.
func (o *Observer) Receive(ctx context.Context, d observe.Delivery) (observe.Verdict, string) {
	if detail, admitted := o.Admit(d.Header, d.Secret); !admitted {
		return observe.Unverified, detail
	}
	verdict, detail := o.take(ctx, d)
	o.hook.Note(verdict, detail)
	return verdict, detail
}

// Admit compares the secret of the address. What is long enough to be one may be
// the shop's that was given another; what is short is somebody's guess.
func (o *Observer) Admit(_ http.Header, secret string) (detail string, admitted bool) {
	if o.verified(secret) {
		return "", true
	}
	const other = "the address is not the one that was given to the shop"
	if len(secret) >= minSecret {
		o.hook.Note(observe.Unverified, other)
	}
	return other, false
}

// take records what a notice says.
func (o *Observer) take(ctx context.Context, d observe.Delivery) (observe.Verdict, string) {
	n, err := parseNotice(d.Header.Get("Content-Type"), d.Body, o.today())
	if err != nil {
		return observe.Malformed, err.Error()
	}
	if why := o.foreign(n); why != "" {
		return observe.Ignored, why
	}
	if o.origin.Load() == 0 && o.begin(ctx) != nil {
		return observe.Unavailable, unavailable
	}
	if n.at < o.origin.Load() {
		return observe.Ignored, "the sale is older than the observation of this product"
	}
	_, err = o.cfg.Ledger.Record(ctx, nil, o.asserted(n))
	switch {
	case errors.Is(err, ledger.ErrSighting):
		return observe.Malformed, "the notice cannot be recorded"
	case err != nil:
		return observe.Unavailable, unavailable
	}
	o.name(n.sale, n.order)
	return observe.Recorded, "recorded"
}

const unavailable = "the notice could not be stored; send it again"

// foreign says why a notice is none of this offer's money, or nothing.
func (o *Observer) foreign(n notice) string {
	switch {
	case n.sale == "":
		return "the notice is about a subscription, not about a sale"
	case o.cfg.Seller != "" && n.seller != o.cfg.Seller:
		return "the sale is another seller's"
	case n.product != o.cfg.Product && n.shortProduct != o.cfg.Product:
		return "the sale is of another product; the offer's is named by its product_id or short_product_id"
	case n.worthless:
		return "no money moved: a test, a gift's copy, an authorization or a price of zero"
	default:
		return ""
	}
}

// asserted is the sighting that a notice is worth. It says "seen" and never
// more, and lies below everything that the shop itself says.
func (o *Observer) asserted(n notice) ledger.Sighting {
	s := o.sighting(n.sale, n.order, n.price, n.at)
	s.State, s.EvidenceLevel, s.Cause = ledger.StatusSeen, ledger.LevelAsserted, "webhook"
	// A notice has no time of its own, and is repeated up to a quarter of an
	// hour later: the order is that in which things happen to a sale.
	if n.refunded {
		s.Returns = append(s.Returns, ledger.Return{ID: refundsID, Kind: ledger.ReturnTotal, Amount: n.price, Gone: true, At: n.at})
	}
	if n.disputed {
		dispute := ledger.Return{ID: disputeID, Kind: ledger.ReturnReversal, Gone: !n.disputeWon, At: n.at}
		if n.disputeWon {
			dispute.Rank = 1
		}
		s.Returns = append(s.Returns, dispute)
	}
	return s
}

// The returns of a sale in the ledger: the shop tells the sum of its refunds,
// and has one dispute a sale.
const (
	refundsID = "refunds"
	disputeID = "dispute"
)

// sighting is what all sightings of a sale have in common. The price is in US
// cents.
func (o *Observer) sighting(sale, order string, price, at int64) ledger.Sighting {
	return ledger.Sighting{
		Offer: o.cfg.OfferID, Account: o.cfg.Account, Rail: o.cfg.Rail, ExternalID: sale, Via: "link",
		Asset: "USD", Amount: price, USDCents: &price, ValueBasis: ledger.BasisFace, Evidence: observe.Evidence(evidence{"gumroad", sale, order}), OccurredAt: at,
	}
}

// evidence is by what a sale can be found at the shop.
type evidence struct {
	Provider string `json:"provider"`
	Sale     string `json:"sale"`
	Order    string `json:"order"`
}

// name has Run read a sale from the shop at once.
func (o *Observer) name(sale, order string) {
	if !o.reads() {
		return
	}
	o.mu.Lock()
	if len(o.named) < maxNamed {
		o.named[sale] = order
	}
	o.mu.Unlock()
	o.loop.Wake()
}
