package gate

import (
	"context"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

// checkoutOpen is how long before a payment its price can have been in force, because a
// checkout can be open for a day.
const checkoutOpen = 24 * time.Hour

// PriceOf returns the price that a payment was made for: of the prices at its time the highest
// that it reaches, or else the lowest, which it does not reach. Error: ErrUnreadable.
func (k *Keeper) PriceOf(ctx context.Context, r ledger.Receipt) (price offer.USD, reached bool, err error) {
	at := r.OccurredAt
	if r.ObservedAt != 0 {
		at = min(at, r.ObservedAt) // it was on its way already, such as a bank debit
	}
	until := time.Unix(at, 0)
	since := until.Add(-checkoutOpen)
	if report.Day(r) != "" {
		until = until.Add(24 * time.Hour)
	}
	prices, err := k.Ledger.Prices(ctx, k.Offer.ID, since.Unix(), until.Unix())
	if err != nil {
		return 0, false, ErrUnreadable
	}
	price = k.Offer.Amount // if none is stored yet
	for _, cents := range prices {
		if price = offer.USD(cents); r.USDCents != nil && *r.USDCents >= cents {
			return price, true, nil
		}
	}
	return price, r.USDCents != nil && *r.USDCents >= int64(price), nil
}
