package card

import (
	"context"
	"errors"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// Receive takes one delivery of the processor's webhook. It is Recorded after
// the commit alone; everything that could not be committed is Unavailable, so
// that the processor repeats it.
func (o *Observer) Receive(ctx context.Context, d observe.Delivery) (observe.Verdict, string) {
	headers := d.Header.Values(signatureHeader)
	if len(headers) != 1 {
		return observe.Unverified, "exactly one header Stripe-Signature is needed"
	}
	if len(d.Body) > observe.MaxDelivery {
		return observe.Malformed, "the delivery is too large for an event"
	}
	if err := Verify(o.config.Secret, headers[0], d.Body, o.config.Now()); err != nil {
		return observe.Unverified, err.Error()
	}
	money, err := o.scoped(ctx)
	if err != nil {
		return o.unavailable()
	}
	sighting, err := money.event(d.Body, delivered)
	var none *unusable
	if errors.As(err, &none) {
		o.heard(false)
		return none.verdict, none.detail
	}
	// The cursor keeps the time of the delivery for the next start. With a key it
	// tells how far the API was read instead.
	var cursor *ledger.Cursor
	if o.provider == nil {
		cursor = &ledger.Cursor{Offer: money.offer, Account: money.account, OKAt: o.config.Now().Unix()}
	}
	refused, err := observe.Record(ctx, o.config.Ledger, cursor, sighting)
	if err != nil {
		return o.unavailable()
	}
	o.heard(true)
	if len(refused) > 0 {
		return observe.Malformed, "the ledger cannot keep what the event says"
	}
	return observe.Recorded, "recorded"
}

func (o *Observer) unavailable() (observe.Verdict, string) {
	o.update(func(s *state) { s.ledgerDown = true })
	return observe.Unavailable, "the ledger cannot be written now; send the event again"
}

var _ observe.Hook = (*Observer)(nil)
