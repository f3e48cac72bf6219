package storefront

import (
	"context"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// begin finds from when on sales count. The operator may have lowered it.
func (o *Observer) begin(ctx context.Context) error {
	now := o.cfg.Now()
	begun, err := observe.Begin(ctx, o.cfg.Ledger, o.cfg.OfferID, o.cfg.Account, o.cfg.Since, o.cfg.ClockOffset, now)
	if err != nil {
		return err
	}
	if begun.Before > 0 {
		o.cfg.Logger.Info("the storefront's sales count from an earlier time on", "since", date(begun.Origin), "before", date(begun.Before))
		o.walk = nil
	}
	o.first.Store(begun.First)
	o.origin.Store(begun.Origin)
	return nil
}

// today is the time of day, corrected by what is known of our clock.
func (o *Observer) today() time.Time {
	now := o.cfg.Now()
	if o.cfg.ClockOffset != nil {
		now = now.Add(-o.cfg.ClockOffset())
	}
	return now
}

func date(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }
