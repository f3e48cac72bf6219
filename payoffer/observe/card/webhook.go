package card

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// Admit asks for what every delivery of the processor has. The time of the
// signature is judged with the signature: it keeps nobody out who knows the date,
// and a wrong clock here must not pass for somebody's attempt.
func (o *Observer) Admit(header http.Header, _ string) (detail string, admitted bool) {
	values := header.Values(signatureHeader)
	if len(values) != 1 {
		return "exactly one header Stripe-Signature is needed", false
	}
	if _, signatures, ok := parseSignature(values[0]); !ok || !slices.ContainsFunc(signatures, digest) {
		return "the header Stripe-Signature is not t=<Unix seconds>,v1=<64 hexadecimal digits>", false
	}
	return "", true
}

// Receive takes one delivery of the processor's webhook. It is Recorded after
// the commit alone; everything that could not be committed is Unavailable, so
// that the processor repeats it.
func (o *Observer) Receive(ctx context.Context, d observe.Delivery) (observe.Verdict, string) {
	if detail, admitted := o.Admit(d.Header, d.Secret); !admitted {
		return observe.Unverified, detail
	}
	if len(d.Body) > observe.MaxDelivery {
		return observe.Malformed, "the delivery is too large for an event"
	}
	header, now := d.Header.Get(signatureHeader), o.config.Now()
	if err := Verify(o.config.Secret, header, d.Body, now); err != nil {
		// One of the processor with another secret cannot be told from one that
		// somebody made up, but from most that are only thrown at the address.
		if errors.Is(err, errTimestamp) || recent(header, now) {
			o.hook.Note(observe.Unverified, err.Error())
		}
		return observe.Unverified, err.Error()
	}
	verdict, detail := o.take(ctx, d.Body, now)
	o.hook.Note(verdict, detail)
	if verdict == observe.Recorded || verdict == observe.Ignored {
		o.update(func(s *state) { s.heardAt = now.Unix() })
	}
	return verdict, detail
}

// take records what a genuine delivery says.
func (o *Observer) take(ctx context.Context, body []byte, now time.Time) (observe.Verdict, string) {
	const unavailable = "the ledger cannot be written now; send the event again"
	money, err := o.scoped(ctx)
	if err != nil {
		return observe.Unavailable, unavailable
	}
	sighting, err := money.asOf(now.Unix()).event(body, delivered)
	var none *unusable
	if errors.As(err, &none) {
		return none.verdict, none.detail
	}
	if detail, err := o.foreign(ctx, sighting); err != nil {
		return observe.Unavailable, unavailable
	} else if detail != "" {
		return observe.Malformed, detail
	}
	// The cursor keeps the time of the delivery for the next start. With a key it
	// tells how far the API was read instead.
	var cursor *ledger.Cursor
	if o.provider == nil {
		cursor = &ledger.Cursor{Offer: money.offer, Account: money.account, OKAt: o.config.Now().Unix()}
	}
	refused, err := observe.Record(ctx, o.config.Ledger, cursor, sighting)
	switch {
	case err != nil:
		return observe.Unavailable, unavailable
	case len(refused) > 0:
		return observe.Malformed, "the ledger cannot keep what the event says"
	default:
		o.warn(ctx, sighting)
		return observe.Recorded, "recorded"
	}
}

var _ observe.Hook = (*Observer)(nil)
