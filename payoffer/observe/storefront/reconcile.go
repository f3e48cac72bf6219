package storefront

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// listEvery is how often the newest sales are read. sweepEvery is how often the sales of sweepDays are read: cards can
	// be disputed for that long.
	listEvery  = 10 * time.Minute
	sweepEvery = 24 * time.Hour
	sweepDays  = 180 * 24 * time.Hour
	// overlap is how far before the last reading a list starts. The API takes a day in an unknown time zone, and a sale
	// can succeed hours after it was created.
	overlap = 48 * time.Hour
	// pingEvery is the shortest time between two readings because of pings.
	pingEvery = 10 * time.Second
	// minPause is the pause after a failure. It doubles up to maxPause.
	minPause, maxPause = 30 * time.Second, 30 * time.Minute
)

// Run reads the shop until ctx ends: the newest sales every ten minutes and after a ping, and daily the sales of half a
// year. It can be called again.
func (o *Observer) Run(ctx context.Context) { o.loop.Run(ctx) }

// poll reads the list if it is due.
func (o *Observer) poll(ctx context.Context) (time.Duration, error) {
	if !o.hasToken() {
		return sweepEvery, nil
	}
	if err := o.loadOrigin(ctx); err != nil {
		return 0, err
	}
	if soon := o.listed.Add(pingEvery); o.pinged.Swap(false) && soon.Before(o.due) {
		o.due = soon
	}
	if !o.cfg.Now().Before(o.due) {
		if err := o.readList(ctx); err != nil {
			return 0, err
		}
		o.listed = o.cfg.Now()
		o.due = o.listed.Add(source.Spread(listEvery, o.cfg.Random()))
	}
	return max(o.due.Sub(o.cfg.Now()), time.Second), nil
}

// loadOrigin loads from when on sales count. The operator may have lowered it.
func (o *Observer) loadOrigin(ctx context.Context) error {
	begun, err := observe.Begin(ctx, o.cfg.Ledger, o.cfg.OfferID, o.cfg.Account, o.cfg.Since, o.cfg.ClockOffset, o.cfg.Now())
	if err != nil {
		return err
	}
	if begun.Before > 0 {
		o.cfg.Logger.Info("storefront sales are read again", "since", formatTime(begun.Origin), "before", formatTime(begun.Before))
	}
	o.first.Store(begun.First)
	o.origin.Store(begun.Origin)
	return nil
}

func formatTime(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }

// productID is the form of a product's id. The list cannot be filtered by a short id.
var productID = regexp.MustCompile(`^[A-Za-z0-9_-]{22}==$`)

// readList records the sales since the last reading, newest first. The cursor moves with the last page. Its position is
// the Unix second up to which the list was read, its anchor that of the last sweep.
func (o *Observer) readList(ctx context.Context) error {
	cursor, _, err := observe.Cursor(ctx, o.cfg.Ledger, o.cfg.OfferID, o.cfg.Account)
	if err != nil {
		return err
	}
	now, origin, before := o.cfg.Now(), o.origin.Load(), cursor.Position
	through, swept := parseSeconds(before), parseSeconds(cursor.Anchor)
	o.through.Store(through)
	since := max(through, origin)
	if age := now.Sub(time.Unix(swept, 0)); age >= sweepEvery || age < 0 || through > now.Unix() { // a clock went back
		swept = now.Unix()
		since = max(min(since, now.Add(-sweepDays).Unix()), origin)
	}
	query := url.Values{"after": {time.Unix(since, 0).Add(-overlap).UTC().Format(time.DateOnly)}}
	if productID.MatchString(o.cfg.Product) {
		query.Set("product_id", o.cfg.Product)
	}
	for {
		p, err := o.shop.list(ctx, query)
		if err == nil && p.Next != "" && p.Next == query.Get("page_key") {
			err = o.shop.fail(observe.ErrBadAnswer) // the pages form a circle
		}
		if err != nil {
			return err
		}
		if p.Next != "" {
			if err := o.record(ctx, nil, p.Sales); err != nil {
				return err
			}
			query.Set("page_key", p.Next)
			continue
		}
		err = o.record(ctx, &ledger.Cursor{
			Offer: o.cfg.OfferID, Account: o.cfg.Account, OKAt: o.cfg.Now().Unix(), ExpectedPosition: &before, Origin: strconv.FormatInt(origin, 10),
			Position: strconv.FormatInt(now.Unix(), 10), Anchor: strconv.FormatInt(swept, 10),
		}, p.Sales)
		if err == nil {
			o.through.Store(now.Unix())
		}
		return err
	}
}

// record commits the offer's sales of a page, and the cursor with them.
func (o *Observer) record(ctx context.Context, cursor *ledger.Cursor, sales []json.RawMessage) error {
	now := o.cfg.Now()
	if o.cfg.ClockOffset != nil {
		now = now.Add(-o.cfg.ClockOffset())
	}
	var observations []ledger.Observation
	unusable := 0
	for _, raw := range sales {
		s, ok := readSale(raw, now)
		if !ok {
			unusable++
			continue
		}
		if !o.belongsToOffer(s) {
			continue
		}
		observation, changed, err := o.observation(ctx, s)
		if err != nil {
			return err
		}
		if changed {
			observations = append(observations, observation)
		}
	}
	refused, err := observe.Record(ctx, o.cfg.Ledger, cursor, observations...)
	if count := unusable + len(refused); count > 0 {
		o.warnUnusable.Do(func() { // every reading meets them again
			o.cfg.Logger.Warn("some storefront sales cannot be recorded", "count", count, "hint", "compare the report with the shop's sales")
		})
	}
	return err
}

// parseSeconds reads Unix seconds; 0 is none.
func parseSeconds(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
