package storefront

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// settled is for how many seconds around the first start the clock may still turn
// out to have been wrong then: others are heard of the time one by one, and it may
// be set.
const settled = 60 * 60

// begin finds from when on sales count: the first start by the time of day, or
// what the configuration says, if that is earlier. What was stored is only ever
// lowered.
func (o *Observer) begin(ctx context.Context) error {
	ledger, id, account := o.cfg.Ledger, o.cfg.OfferID, o.cfg.Account
	stored, err := observe.Account(ctx, ledger, id, account)
	if err != nil {
		return err
	}
	now := o.cfg.Now().Unix()
	first := cmp.Or(stored.Since, now) // a version before kept no time
	young := stored.Since > now-settled && stored.Since < now+settled
	if young {
		first = min(first, now) // a clock that was set back had been ahead
	}
	if stored.Since > 0 {
		first -= o.ahead()
	}
	origin := seconds(stored.Origin)
	if origin == 0 {
		if origin, err = observe.Origin(ctx, ledger, id, account, first); err != nil {
			return err
		}
	}
	to := min(origin, cmp.Or(o.cfg.Since, origin))
	if young {
		to = min(to, first)
	}
	if to < origin {
		lowered, err := observe.LowerOrigin(ctx, ledger, id, account, to)
		if err != nil {
			return err
		}
		if lowered {
			o.cfg.Logger.Info("the storefront's sales count from an earlier time on", "since", date(to), "before", date(origin))
		}
		stored.Back = cmp.Or(stored.Back, strconv.FormatInt(origin, 10))
	}
	if stored.Since == 0 {
		first = cmp.Or(seconds(stored.Back), origin)
	}
	o.first.Store(first)
	o.back.Store(stored.Back != "")
	o.origin.Store(to)
	return nil
}

// ahead is by how many seconds the clock is proven to be ahead.
func (o *Observer) ahead() int64 {
	if o.cfg.ClockOffset == nil {
		return 0
	}
	return int64(o.cfg.ClockOffset().Seconds())
}

func date(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }
