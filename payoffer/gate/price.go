package gate

import (
	"context"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

// dayLength is in seconds. A checkout can be open for a day, so that an earlier price counts.
const dayLength = 24 * 60 * 60

// Reason is why a payment opens no gate; empty if it opens them. It is a key of the texts.
type Reason string

const (
	ReasonLess     Reason = "less"     // it does not reach the price
	ReasonChosen   Reason = "chosen"   // the payer chose the amount, in another currency than US dollars
	ReasonCurrency Reason = "currency" // the seller's price in its currency is not known
	ReasonValue    Reason = "value"    // its value in US dollars is not known
	ReasonTest     Reason = "test"     // its money is worth nothing
	ReasonRefunded Reason = "refunded" // a part of it was refunded
	ReasonEnded    Reason = "ended"    // its access has ended
)

// PriceOf returns the price that a payment was made for: of the prices at its time the highest
// that it reaches, or else the lowest, and why it does not reach that. What was asked for counts
// before discounts. In bitcoin one percent may be missing, the fee of an exchange. Error:
// ErrUnreadable.
func (k *Keeper) PriceOf(ctx context.Context, r ledger.Receipt) (price offer.USD, lacks Reason, err error) {
	since, until := r.OccurredAt-dayLength, r.OccurredAt
	if r.ObservedAt != 0 && r.ObservedAt < until { // it was on its way, such as a bank debit
		since, until = r.ObservedAt-dayLength, r.ObservedAt
	}
	if report.Day(r) != "" {
		until += dayLength
	}
	prices, err := k.Ledger.Prices(ctx, k.Offer.ID, since, until)
	if err != nil {
		return 0, "", ErrUnreadable
	}
	if len(prices) == 0 { // none is stored yet
		prices = []int64{int64(k.Offer.Amount)}
	}
	checkout := ledger.CheckoutOf(r)
	worth := checkout.Subtotal
	if r.USDCents != nil {
		worth = max(worth, *r.USDCents)
	}
	for _, cents := range prices {
		least := cents
		if r.ValueBasis == ledger.BasisQuote || r.ValueBasis == ledger.BasisRate {
			least = cents * 99 / 100
		}
		if price = offer.USD(cents); worth >= least {
			return price, "", nil
		}
	}
	switch {
	case checkout.Price == ledger.PriceFixed:
		return price, "", nil
	case r.USDCents != nil:
		return price, ReasonLess, nil
	case checkout.Price == ledger.PriceChosen:
		return price, ReasonChosen, nil
	case checkout.Session != "":
		return price, ReasonCurrency, nil
	}
	return price, ReasonValue, nil
}

// Closed returns why a confirmed payment opens no gate. It is empty also without a gate, and
// while the ledger cannot be read.
func (k *Keeper) Closed(ctx context.Context, r ledger.Receipt) Reason {
	if len(k.Offer.Gates) == 0 || r.Status != ledger.StatusConfirmed {
		return ""
	}
	s, err := k.readShared(ctx, HolderOf(r))
	switch {
	case err != nil:
		return ""
	case !s.opens && r.Testnet:
		return ReasonTest
	case !s.opens:
		return ReasonRefunded
	case s.reason == "" && !k.Now().Before(s.Expires(k.longestAccess())):
		return ReasonEnded
	}
	return s.reason
}
