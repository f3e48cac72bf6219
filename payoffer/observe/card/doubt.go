package card

import (
	"context"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// What the processor says of refunds and cannot be: refunds are of the payment's
// currency, and no more than it.

// foreign says why a refund is none of the payment that it names: it is in another
// currency, and nobody says how much of the payment went back by it. One that comes
// before its payment is kept, and told of by warn then.
func (o *Observer) foreign(ctx context.Context, s ledger.Sighting) (detail string, err error) {
	for _, r := range s.Returns {
		if r.Kind == ledger.ReturnReversal || r.Currency == "" {
			continue
		}
		paid, found, err := o.config.Ledger.Receipt(ctx, s.Offer, s.Account, s.ExternalID)
		if err != nil {
			return "", observe.ErrNoLedger
		}
		if found && r.Foreign(paid.Asset) {
			return "the refund is in " + r.Currency + " and its payment in " + paid.Asset, nil
		}
	}
	return "", nil
}

// warn tells the log what of the refunds of a payment is not booked as the processor
// said it, whenever the processor tells of it.
func (o *Observer) warn(ctx context.Context, s ledger.Sighting) {
	paid, found, err := o.config.Ledger.Receipt(ctx, s.Offer, s.Account, s.ExternalID)
	if err != nil || !found {
		return // nothing of it is booked, or the next reading meets the same trouble
	}
	words, err := o.config.Ledger.Returns(ctx, s.Offer, s.Account, s.ExternalID)
	if err != nil {
		return
	}
	log := o.config.Logger.With("reference", paid.ExternalID, "paid", offer.UnitOf(paid.Asset).Format(paid.Amount))
	for _, r := range words {
		if r.Gone && r.Foreign(paid.Asset) {
			log.Warn("a refund is in another currency than its payment and is not booked; look at it in the processor's dashboard",
				"refund", offer.UnitOf(r.Currency).Format(r.Amount))
		}
	}
	if told := accounting.ToldRefunded(words, paid.Asset); told > paid.Amount {
		log.Warn("the processor says that more was refunded than was paid, and no more than was paid is booked; look at it in its dashboard",
			"refunded", offer.UnitOf(paid.Asset).Format(told))
	}
}
