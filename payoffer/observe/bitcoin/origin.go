package bitcoin

import (
	"context"
	"slices"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// findOrigin stores the origin of a new account, the last block before the account was first watched, and moves it back
// to Config.Since, once in a process. Payments since then count, however late an endpoint answers.
func (o *Observer) findOrigin(ctx context.Context, s *state) (err error) {
	if s.origin < 0 {
		started := s.account.Since
		if o.config.ClockOffset != nil {
			started -= seconds(o.config.ClockOffset())
		}
		first, err := o.blockBefore(ctx, started)
		if err != nil {
			return err
		}
		if s.origin, err = observe.Origin(ctx, o.config.Ledger, o.config.OfferID, o.config.Rail.Account(), first); err != nil {
			return err
		}
	}
	if o.config.Since != 0 && !o.lowered {
		to, err := o.blockBefore(ctx, o.config.Since)
		if err != nil {
			return ctx.Err() // the next cycle tries it again
		}
		lowered, err := observe.LowerOrigin(ctx, o.config.Ledger, o.config.OfferID, o.config.Rail.Account(), to)
		if lowered {
			o.config.Logger.Info("bitcoin payments are read again", "since", time.Unix(o.config.Since, 0).UTC(), "after_block", to)
			o.swept = 0 // all addresses are read from there
			*s, err = o.loadState(ctx)
		}
		if err != nil {
			return err
		}
		o.lowered = true
	}
	return nil
}

// blockBefore returns the last block before a moment as two hosts show it, or one if no other one is live.
func (o *Observer) blockBefore(ctx context.Context, moment int64) (int64, error) {
	c := o.newCycle(state{}) // the block of the cursor may not be on the chain
	var number int64
	for shown := map[int64]bool{}; ; shown[number] = true {
		r := c.readNext(ctx, func(r *reading, ctx context.Context) error {
			n, err := r.before(ctx, moment)
			if err == nil {
				number = n
			}
			return err
		})
		switch {
		case len(c.readings) == 1 && !c.awaits(), r != nil && shown[number]:
			return number, nil
		case r == nil && len(shown) > 1:
			return 0, disagree(c.readings...)
		case r == nil:
			return 0, c.problem
		}
	}
}

// before returns the height of the last block before a moment, in Unix seconds; at least 0. Only the median time past
// (BIP 113) grows with the height, and it lags by about five blocks. Among the uncertain blocks, the search ends at the
// first whose own time is after the moment. So one block too many may count, but never one too few.
func (r *reading) before(ctx context.Context, moment int64) (int64, error) {
	low, high := int64(0), r.tip.Height+1 // high's median is after the moment, and low's is not, except the first one's
	for low+1 < high {
		middle := low + (high-low)/2
		page, err := r.blocks(ctx, middle)
		if err != nil {
			return 0, err
		}
		if page[0].Median <= moment {
			low = middle
		} else {
			high = middle
		}
	}
	page, err := r.blocks(ctx, low)
	if err != nil {
		return 0, err
	}
	for _, b := range slices.Backward(page) {
		if b.Time > moment {
			low = max(0, b.Height-1)
			break
		}
	}
	return low, r.checkTip(ctx)
}
