package card

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// Admit requires a well-formed signature header. It does not check the time, because a wrong clock of this server must
// not look like a forgery.
func (o *Observer) Admit(header http.Header, _ string) (detail string, admitted bool) {
	values := header.Values(signatureHeader)
	if len(values) != 1 {
		return "send exactly one header Stripe-Signature", false
	}
	if _, signatures, ok := parseSignature(values[0]); !ok || !slices.ContainsFunc(signatures, isDigest) {
		return "the header Stripe-Signature is malformed; write t=<Unix seconds>,v1=<64 hexadecimal digits>", false
	}
	return "", true
}

// Receive handles one webhook delivery. It is Recorded only after the commit, and Unavailable if it cannot be committed,
// so that Stripe sends it again.
func (o *Observer) Receive(ctx context.Context, d observe.Delivery) (observe.Verdict, string) {
	if detail, admitted := o.Admit(d.Header, d.Secret); !admitted {
		return observe.Unverified, detail
	}
	header, now := d.Header.Get(signatureHeader), o.config.Now()
	if err := Verify(o.config.Secret, header, d.Body, now); err != nil {
		// A current time is a sign of a real delivery with another secret, not of an old or invented one.
		timestamp, _, _ := parseSignature(header)
		switch {
		case errors.Is(err, errTimestamp):
			o.deliveries.Worsen(observe.ErrClock, err.Error())
		case isCurrent(timestamp, now):
			o.deliveries.Update(observe.Unverified, err.Error())
		}
		return observe.Unverified, err.Error()
	}
	verdict, detail := o.recordEvent(ctx, d.Body)
	o.deliveries.Update(verdict, detail)
	if verdict == observe.Recorded || verdict == observe.Ignored {
		o.deliveredAt.Store(now.Unix())
	}
	return verdict, detail
}

// recordEvent records a genuine delivery.
func (o *Observer) recordEvent(ctx context.Context, body []byte) (observe.Verdict, string) {
	const unavailable = "the ledger cannot be written now; send the event again"
	money := o.scope.Load()
	if money == nil {
		loaded, err := o.loadScope(ctx)
		if err != nil {
			return observe.Unavailable, unavailable
		}
		money = &loaded
	}
	now := o.config.Now().Unix()
	observation, err := money.at(now).event(body, fromWebhook)
	var unusable *unusableError
	if errors.As(err, &unusable) {
		o.warnLink(unusable)
		return unusable.verdict, unusable.detail
	}
	// Without a key the cursor keeps the time of the delivery for the next start. With one it is the API's.
	var cursor *ledger.Cursor
	if o.provider == nil {
		cursor = &ledger.Cursor{Offer: money.offer, Account: money.account, OKAt: now}
	}
	refused, err := observe.Record(ctx, o.config.Ledger, cursor, observation)
	switch {
	case err != nil:
		return observe.Unavailable, unavailable
	case len(refused) > 0:
		return observe.Malformed, "the ledger rejects an amount or a time of the event; compare the payment with Stripe's dashboard"
	default:
		o.warnForeign(ctx, observation)
		return observe.Recorded, "recorded"
	}
}

var _ observe.Hook = (*Observer)(nil)
