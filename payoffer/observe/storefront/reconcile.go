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
	// listEvery is how often the newest sales are read, sweepEvery how often
	// those of the time in which cards are disputed.
	listEvery  = 10 * time.Minute
	sweepEvery = 24 * time.Hour
	sweepDays  = 180 * 24 * time.Hour
	// overlap is how far a list reaches back behind the last one. The list
	// takes a day, of whatever time zone, and a sale may succeed after it was
	// made.
	overlap = 48 * time.Hour
	// noticeEvery is how long a notice waits at least after the last list, so
	// that many notices cost the shop few calls.
	noticeEvery = 10 * time.Second
	// After a failure the shop is asked again after minPause, and after each
	// further one after twice that time, up to maxPause.
	minPause = 30 * time.Second
	maxPause = 30 * time.Minute
)

// Run reads the shop until ctx ends: the newest sales every ten minutes and after
// a notice, and once a day the sales of half a year. It records the sales and how
// far it read. After a failure, or when it is called again, it goes on from there.
func (o *Observer) Run(ctx context.Context) { o.loop.Run(ctx) }

// Begin is Run that does not wait: it calls ended when Run would return.
func (o *Observer) Begin(ctx context.Context, ended func()) { o.loop.Begin(ctx, ended) }

// round reads the list if it is due.
func (o *Observer) round(ctx context.Context) (time.Duration, error) {
	if !o.reads() {
		return sweepEvery, nil
	}
	if err := o.begin(ctx); err != nil {
		return 0, err
	}
	if soon := o.listed.Add(noticeEvery); o.noticed.Swap(false) && soon.Before(o.due) {
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

// walk is a way through the list, the newest sales first. After a failure it
// goes on where that happened.
type walk struct {
	since time.Time
	// started and swept are what the cursor will say, in Unix seconds.
	started, swept int64
	upon           string // the cursor's position when it began
	key            string // of the next page
}

// readList reads the list. A walk that was broken off for long is followed by
// another, for it does not meet what was sold since it began.
func (o *Observer) readList(ctx context.Context) error {
	for {
		if o.walk == nil {
			w, err := o.newWalk(ctx)
			if err != nil {
				return err
			}
			o.walk = w
		}
		started := o.walk.started
		if err := o.finish(ctx, o.walk); err != nil {
			return err
		}
		o.walk = nil
		o.through.Store(started)
		if o.cfg.Now().Sub(time.Unix(started, 0)) < listEvery {
			return nil
		}
	}
}

// finish goes a walk to its end, where the cursor moves: all was recorded then.
func (o *Observer) finish(ctx context.Context, w *walk) error {
	for {
		p, err := o.shop.list(ctx, o.query(w))
		if err == nil && p.Next != "" && p.Next == w.key {
			err = o.shop.fail(observe.ErrBadAnswer) // it leads in a circle
		}
		if err != nil {
			if source.Code(err) == observe.ErrBadAnswer {
				o.walk = nil // its key may be the reason
			}
			return err
		}
		var cursor *ledger.Cursor
		if p.Next == "" {
			cursor = &ledger.Cursor{
				Offer: o.cfg.OfferID, Account: o.cfg.Account, OKAt: o.cfg.Now().Unix(),
				Position: strconv.FormatInt(w.started, 10), Anchor: strconv.FormatInt(w.swept, 10), Upon: &w.upon,
			}
		}
		if err := o.record(ctx, cursor, p.Sales); err != nil || cursor != nil {
			return err
		}
		w.key = p.Next
	}
}

// newWalk plans a walk by the cursor: its position is the Unix second up to
// which the list was read, its anchor that of the last sweep.
func (o *Observer) newWalk(ctx context.Context) (*walk, error) {
	cursor, _, err := observe.Cursor(ctx, o.cfg.Ledger, o.cfg.OfferID, o.cfg.Account)
	if err != nil {
		return nil, err
	}
	now := o.cfg.Now()
	through, swept, origin := seconds(cursor.Position), seconds(cursor.Anchor), o.origin.Load()
	o.through.Store(through)
	w := &walk{started: now.Unix(), swept: swept, upon: cursor.Position, since: time.Unix(max(through, origin), 0)}
	if age := now.Sub(time.Unix(swept, 0)); age >= sweepEvery || age < 0 || through > now.Unix() { // a clock went back
		w.swept = now.Unix()
		if start := now.Add(-sweepDays); start.Before(w.since) {
			w.since = start
		}
		w.since = time.Unix(max(w.since.Unix(), origin), 0)
	}
	w.since = w.since.Add(-overlap)
	return w, nil
}

// externalID is the form of a product's id; a short id is none, and the list
// is not filtered by it.
var externalID = regexp.MustCompile(`^[A-Za-z0-9_-]{22}==$`)

func (o *Observer) query(w *walk) url.Values {
	q := url.Values{"after": {w.since.UTC().Format(time.DateOnly)}}
	if externalID.MatchString(o.cfg.Product) {
		q.Set("product_id", o.cfg.Product)
	}
	if w.key != "" {
		q.Set("page_key", w.key)
	}
	return q
}

// record commits what is ours of a page, and the cursor with it.
func (o *Observer) record(ctx context.Context, cursor *ledger.Cursor, sales []json.RawMessage) error {
	var sightings []ledger.Sighting
	unread := 0
	for _, raw := range sales {
		s, ok := readSale(raw, o.today())
		if !ok {
			unread++
			continue
		}
		if !o.ours(s) {
			continue
		}
		sighting, news, err := o.confirmed(ctx, s)
		if err != nil {
			return err
		}
		if news {
			sightings = append(sightings, sighting)
		}
	}
	refused, err := observe.Record(ctx, o.cfg.Ledger, cursor, sightings...)
	if count := unread + len(refused); count > 0 {
		o.refused.Do(func() { // they are met on each way through the list
			o.cfg.Logger.Warn("sales of the storefront's list cannot be recorded and are left out", "count", count)
		})
	}
	return err
}

// seconds reads Unix seconds; 0 stands for none.
func seconds(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
