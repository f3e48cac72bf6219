package card

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// interval is the time between two polls, and firstRetry the pause after a failed one. It doubles up to maxRetry.
	interval             = 5 * time.Minute
	firstRetry, maxRetry = 15 * time.Second, 10 * time.Minute

	// The following are seconds by Stripe's clock, so that a wrong clock of this server loses nothing.

	// overlap is read again, because events can be listed late.
	overlap = 3600
	// window is how much is read between two moves of the cursor.
	window = 24 * 3600
	// maxDelay is how long before its payment a checkout can have been opened and a bank debit submitted.
	maxDelay = 30 * 24 * 3600
	// retention is how far back the list of events is used. Stripe keeps events for 30 days.
	retention = 29 * 24 * 3600
)

// Run stores the first start and, with a key, polls the API until ctx ends. It can be called again.
func (o *Observer) Run(ctx context.Context) { o.loop.Run(ctx) }

func (o *Observer) poll(ctx context.Context) (time.Duration, error) {
	money, err := o.loadScope(ctx)
	if err != nil {
		return 0, err
	}
	cursor, _, err := observe.Cursor(ctx, o.config.Ledger, money.offer, money.account)
	if err != nil {
		return 0, err
	}
	if o.provider == nil {
		o.deliveredAt.Store(max(o.deliveredAt.Load(), cursor.OKAt))
		return interval, nil // the offset of the clock can change
	}
	// A key without the permission for it still reads payments.
	if prices, err := o.provider.prices(ctx, money.link); err == nil {
		money.prices = prices
		o.scope.Store(&money)
	}
	through, err := strconv.ParseInt(cursor.Position, 10, 64)
	if err == nil {
		o.readAt.Store(cursor.OKAt)
		o.through.Store(through)
	} // else it was not read yet
	if err = o.reconcile(ctx, money, cursor.Position, through); err == nil {
		o.deliveries.ClearLedgerError()
	}
	return source.Spread(interval, o.config.Random()), err
}

// reconcile reads all new events and moves the cursor over each window whose events are recorded. through is the
// cursor's position, 0 for none. Without a cursor, or where events are no longer kept, it first reads all payments of
// the link, which also checks the key's permissions. It reads the kept events afterwards, because only they say when a
// delayed payment arrived.
func (o *Observer) reconcile(ctx context.Context, money scope, position string, through int64) error {
	from := max(through-overlap, money.origin)
	for paymentsRead := false; ; {
		at, err := o.readEvents(ctx, money, from)
		if err != nil {
			return err
		}
		if !paymentsRead && (through == 0 || from < at-retention) {
			if err := o.readPayments(ctx, money); err != nil {
				return err
			}
			paymentsRead, from = true, max(from, at-retention)
			continue
		}
		until, now, before := min(from+window, at), o.config.Now().Unix(), position
		from, through, position = until, max(until, through), strconv.FormatInt(max(until, through), 10)
		cursor := ledger.Cursor{Offer: money.offer, Account: money.account, Position: position, OKAt: now, ExpectedPosition: &before,
			Origin: strconv.FormatInt(money.origin, 10)}
		if _, err := observe.Record(ctx, o.config.Ledger, &cursor); err != nil {
			return err
		}
		o.readAt.Store(now)
		o.through.Store(through)
		if until == at {
			return nil
		}
	}
}

// readEvents records the events of one window, and returns when Stripe began to list them.
func (o *Observer) readEvents(ctx context.Context, money scope, from int64) (at int64, err error) {
	query := url.Values{
		"types[]":      eventTypes,
		"created[gte]": {strconv.FormatInt(from, 10)},
		"created[lt]":  {strconv.FormatInt(from+window, 10)},
	}
	err = o.provider.each(ctx, "/v1/events", query, func(items []json.RawMessage, sent int64) error {
		if at == 0 {
			at = sent
		}
		_, err := o.record(ctx, items, func(item json.RawMessage) (ledger.Observation, error) {
			return money.at(sent).event(item, fromAPI)
		})
		return err
	})
	return at, err
}

// readPayments records the current state of every payment of the link with its refunds and disputes. A checkout that
// was opened before the origin can have been paid after it.
func (o *Observer) readPayments(ctx context.Context, money scope) error {
	query := url.Values{
		"payment_link": {money.link},
		"status":       {"complete"},
		"created[gte]": {strconv.FormatInt(max(0, money.origin-maxDelay), 10)},
	}
	return o.provider.each(ctx, "/v1/checkout/sessions", query, func(items []json.RawMessage, sent int64) error {
		paid, err := o.record(ctx, items, func(item json.RawMessage) (ledger.Observation, error) {
			return o.readSession(ctx, money.at(sent), item)
		})
		if err != nil {
			return err
		}
		for _, s := range paid {
			if err := o.readReturns(ctx, money, s.ExternalID); err != nil {
				return err
			}
		}
		return nil
	})
}

// readSession reads a listed checkout session and its payment intent: whether the money came or can still come, and when.
func (o *Observer) readSession(ctx context.Context, money scope, item json.RawMessage) (ledger.Observation, error) {
	listed, err := money.read(item)
	if err == nil {
		err = money.requireTime(listed)
	}
	if err != nil {
		return ledger.Observation{}, err
	}
	if listed.Livemode == money.test {
		return ledger.Observation{}, ignored("the checkout is of the other mode, live or test")
	}
	s, err := money.session(listed, false, max(listed.Created, money.origin), "", fromAPI)
	if err != nil {
		return s, err
	}
	body, now, err := o.provider.get(ctx, "/v1/payment_intents/"+s.ExternalID, url.Values{"expand[]": {"latest_charge"}})
	if err != nil {
		return ledger.Observation{}, err
	}
	var intent struct {
		Status string         `json:"status"`
		Charge jsontext.Value `json:"latest_charge"`
	}
	if decode(body, &intent) != nil || intent.Status == "" {
		return ledger.Observation{}, o.provider.fail(observe.ErrBadAnswer)
	}
	at, status := listed.Created, intent.Status
	if intent.Charge.Kind() == '{' { // there is none before an attempt to pay
		charge, err := money.read(intent.Charge)
		if err != nil || money.requireTime(charge) != nil || charge.Amount == nil || charge.AmountCaptured == nil {
			return ledger.Observation{}, o.provider.fail(observe.ErrBadAnswer)
		}
		at = charge.Created
		if status == "succeeded" {
			s.Returns = charge.uncaptured(now)
		}
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
		return ledger.Observation{}, ignored("it happened before this offer was first observed")
	}
	s.OccurredAt, s.Cause = at, money.cause(fromAPI, at)
	return s, nil
}

// readReturns records the refunds and disputes of one payment.
func (o *Observer) readReturns(ctx context.Context, money scope, intent string) error {
	for path, read := range map[string]func(scope, *object, ledger.EvidenceLevel) (ledger.Observation, error){
		"/v1/refunds":  scope.refund,
		"/v1/disputes": scope.dispute,
	} {
		err := o.provider.each(ctx, path, url.Values{"payment_intent": {intent}}, func(items []json.RawMessage, sent int64) error {
			_, err := o.record(ctx, items, func(item json.RawMessage) (ledger.Observation, error) {
				at := money.at(sent)
				o, err := at.read(item)
				if err != nil {
					return ledger.Observation{}, err
				}
				return read(at, o, fromAPI)
			})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// record commits the usable items and returns their observations.
func (o *Observer) record(ctx context.Context, items []json.RawMessage, read func(json.RawMessage) (ledger.Observation, error)) ([]ledger.Observation, error) {
	var observations []ledger.Observation
	unreadable := 0
	for _, item := range items {
		s, err := read(item)
		var unusable *unusableError
		switch {
		case err == nil:
			observations = append(observations, s)
		case !errors.As(err, &unusable):
			return nil, err
		case unusable.verdict == observe.Malformed:
			unreadable++
		default:
			o.warnLink(unusable)
		}
	}
	refused, err := observe.Record(ctx, o.config.Ledger, nil, observations...)
	if err != nil {
		return nil, err
	}
	o.warnForeign(ctx, observations...)
	if unreadable += len(refused); unreadable > 0 {
		o.config.Logger.Warn("some card payments cannot be read", "items", unreadable, "hint", "compare the report with Stripe's dashboard")
	}
	return observations, nil
}
