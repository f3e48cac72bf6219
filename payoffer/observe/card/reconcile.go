package card

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// interval is the time between two rounds.
	interval = 5 * time.Minute
	// firstRetry is the time after which a failed one is repeated. It doubles
	// with every failure, up to maxRetry.
	firstRetry, maxRetry = 15 * time.Second, 10 * time.Minute
)

// Times in seconds, by the processor's clock: what an answer covers does not
// depend on the clock of this server.
const (
	// overlap is read twice, for events that are listed late.
	overlap = 3600
	// window is how much is read between two notes of the progress.
	window = 24 * 3600
	// opened is how long before its payment a checkout may have been opened, and a
	// bank debit been submitted.
	opened = 30 * 24 * 3600
	// retention is how far back events are relied on: the processor keeps
	// them for 30 days.
	retention = 29 * 24 * 3600
)

// Run keeps in the ledger since when the account is watched and, with a key, reads
// the API again and again until ctx ends. It may be called again
// afterwards.
func (o *Observer) Run(ctx context.Context) { o.loop.Run(ctx) }

// Begin is Run that does not wait: it calls ended when Run would return.
func (o *Observer) Begin(ctx context.Context, ended func()) { o.loop.Begin(ctx, ended) }

// round brings what is known up to date once.
func (o *Observer) round(ctx context.Context) (time.Duration, error) {
	if err := o.begin(ctx); err != nil {
		return 0, err
	}
	money, err := o.scoped(ctx)
	if err != nil {
		return 0, err
	}
	cursor, _, err := observe.Cursor(ctx, o.config.Ledger, money.offer, money.account)
	if err != nil {
		return 0, err
	}
	if o.provider == nil {
		o.update(func(s *state) { s.heardAt = max(s.heardAt, cursor.OKAt) })
		return interval, nil // for the clock, which may turn out to have been wrong
	}
	through, err := strconv.ParseInt(cursor.Position, 10, 64)
	if err == nil {
		o.update(func(s *state) { s.readAt, s.through = cursor.OKAt, through })
	} // else there is none yet: that of webhooks alone is empty
	if err = o.reconcile(ctx, money, cursor.Position, through); err == nil {
		o.hook.LedgerAnswers()
	}
	return source.Spread(interval, o.config.Random()), err
}

// reconcile reads all events that may not be known, and moves the cursor over each
// window whose events were all recorded; through is where it stands at first,
// 0 for nowhere, which the ledger has as standing. Where it stands nowhere, where events are no longer kept, and after the
// origin was lowered (back), it first reads all payments of the link as they stand
// now. That also finds out at the first start whether the key may read them and
// whether the link is known. The events that are kept are read after them, for
// they alone tell when a delayed payment arrived.
func (o *Observer) reconcile(ctx context.Context, money scope, standing string, through int64) error {
	from, whole := max(through-overlap, money.origin), through == 0
	if whole {
		from = money.origin
	}
	for read := false; ; {
		at, err := o.events(ctx, money, from)
		if err != nil {
			return err
		}
		if !read && (whole || from < at-retention) {
			if err := o.payments(ctx, money); err != nil {
				return err
			}
			read, from = true, max(from, at-retention)
			continue
		}
		until := min(from+window, at)
		if standing, err = o.advance(ctx, money, standing, max(until, through)); err != nil {
			return err
		}
		if until == at {
			return nil
		}
		from = until
	}
}

// advance notes that everything up to through was recorded; whole, also what a
// lowered origin let in. It returns how the ledger has it, upon what stood there.
func (o *Observer) advance(ctx context.Context, money scope, upon string, through int64) (standing string, err error) {
	now := o.config.Now().Unix()
	cursor := ledger.Cursor{
		Offer: money.offer, Account: money.account, Position: strconv.FormatInt(through, 10), OKAt: now, Upon: &upon,
	}
	if _, err := observe.Record(ctx, o.config.Ledger, &cursor); err != nil {
		return "", err
	}
	o.update(func(s *state) { s.readAt, s.through = now, through })
	return cursor.Position, nil
}

// events records the events of one window, and returns when the processor
// began to list them.
func (o *Observer) events(ctx context.Context, money scope, from int64) (at int64, err error) {
	query := url.Values{
		"types[]":      eventTypes,
		"created[gte]": {strconv.FormatInt(from, 10)},
		"created[lt]":  {strconv.FormatInt(from+window, 10)},
	}
	err = o.provider.each(ctx, "/v1/events", query, func(p page) error {
		if at == 0 {
			at = p.at
		}
		_, err := o.record(ctx, p.items, func(item json.RawMessage) (ledger.Sighting, error) {
			return money.asOf(p.at).event(item, readBack)
		})
		return err
	})
	return at, err
}

// payments records every payment of the link and everything that went back of
// it, as they stand now. A checkout that was opened before the origin may have
// been paid after it.
func (o *Observer) payments(ctx context.Context, money scope) error {
	query := url.Values{
		"payment_link": {money.link},
		"status":       {"complete"},
		"created[gte]": {strconv.FormatInt(max(0, money.origin-opened), 10)},
	}
	return o.provider.each(ctx, "/v1/checkout/sessions", query, func(p page) error {
		paid, err := o.record(ctx, p.items, func(item json.RawMessage) (ledger.Sighting, error) {
			return o.standing(ctx, money.asOf(p.at), item)
		})
		if err != nil {
			return err
		}
		for _, s := range paid {
			if err := o.returns(ctx, money, s.ExternalID); err != nil {
				return err
			}
		}
		return nil
	})
}

// standing reads a checkout session of the list, and the payment intent that it
// led to: whether the money came or may still come, and when.
func (o *Observer) standing(ctx context.Context, money scope, item json.RawMessage) (ledger.Sighting, error) {
	f := parseFields(item)
	if live := f.flag("livemode"); f.err == nil && live == money.test {
		return ledger.Sighting{}, ignored("the checkout is of the other mode, live or test")
	}
	created := f.time("created", money.now)
	s, err := money.session(f, false, max(created, money.origin), "", readBack)
	if err != nil {
		return s, err
	}
	body, now, err := o.provider.get(ctx, "/v1/payment_intents/"+s.ExternalID, url.Values{"expand[]": {"latest_charge"}})
	if err != nil {
		return ledger.Sighting{}, err
	}
	intent := parseFields(body)
	status := intent.text("status")
	charge := parseFields(intent.members["latest_charge"]) // none is made of a payment that did not come so far
	at := created
	if charge.err == nil {
		at = charge.time("created", money.now)
		if status == "succeeded" {
			s.Returns = uncaptured(charge, now)
		}
	}
	if intent.err != nil || charge.err != nil && len(charge.members) > 0 {
		return ledger.Sighting{}, o.provider.fail(observe.ErrBadAnswer)
	}
	switch {
	case status == "succeeded":
		s.State = ledger.StatusConfirmed
	case status == "requires_capture":
		s.State = ledger.StatusSeen
	case s.State == ledger.StatusSeen && (status == "requires_payment_method" || status == "canceled"):
		s.State = ledger.StatusDropped
	}
	if at < money.origin {
		return ledger.Sighting{}, ignored("it happened before this offer was first observed")
	}
	s.OccurredAt, s.Cause = at, money.cause(readBack, at)
	return s, nil
}

// returns records the refunds and disputes of one payment.
func (o *Observer) returns(ctx context.Context, money scope, intent string) error {
	for path, read := range map[string]func(scope, *fields, way) (ledger.Sighting, error){
		"/v1/refunds":  scope.refund,
		"/v1/disputes": scope.dispute,
	} {
		err := o.provider.each(ctx, path, url.Values{"payment_intent": {intent}}, func(p page) error {
			_, err := o.record(ctx, p.items, func(item json.RawMessage) (ledger.Sighting, error) {
				return read(money.asOf(p.at), parseFields(item), readBack)
			})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// record commits what the items say, and returns it. An item that cannot be
// read does not keep the others out.
func (o *Observer) record(ctx context.Context, items []json.RawMessage, read func(json.RawMessage) (ledger.Sighting, error)) ([]ledger.Sighting, error) {
	var sightings []ledger.Sighting
	unreadable := 0
	for _, item := range items {
		s, err := read(item)
		if err == nil {
			var detail string
			if detail, err = o.foreign(ctx, s); detail != "" {
				err = malformed(detail)
			}
		}
		var none *unusable
		switch {
		case err == nil:
			sightings = append(sightings, s)
		case !errors.As(err, &none):
			return nil, err
		case none.verdict == observe.Malformed:
			unreadable++
		}
	}
	refused, err := observe.Record(ctx, o.config.Ledger, nil, sightings...)
	if err != nil {
		return nil, err
	}
	for _, s := range sightings {
		if len(s.Returns) > 0 {
			o.warn(ctx, s)
		}
	}
	if unreadable += len(refused); unreadable > 0 {
		o.config.Logger.Warn("the card processor listed what cannot be read; look at its dashboard whether a payment is missing here", "items", unreadable)
	}
	return sightings, nil
}
