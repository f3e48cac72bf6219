package bitcoin

import (
	"context"
	"slices"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// setOrigin stores the origin of a new account: the last block before the account was first watched. Payments since
// then count, however late an endpoint answers.
func (o *Observer) setOrigin(ctx context.Context, v *view, p *plan) error {
	if p.origin < 0 {
		started := p.account.Since
		if o.config.ClockOffset != nil {
			started -= seconds(o.config.ClockOffset())
		}
		first, ok, err := o.before(ctx, v, started)
		if err == nil && !ok {
			err = v.undecided()
		}
		if err != nil {
			return err
		}
		if p.origin, err = observe.Origin(ctx, o.config.Ledger, o.config.OfferID, o.config.Rail.Account(), first); err != nil {
			return err
		}
	}
	if p.memory.origin == p.origin {
		return nil
	}
	// Read all addresses from there.
	p.memory.origin = p.origin
	p.memory.sweepNext, p.memory.sweepDue = 0, o.config.Now().Add(slowEvery)
	p.memory.swept = !o.config.Rail.Extended()
	return nil
}

// lowerOrigin moves the origin back to Config.Since, once in a process, and everything is read again from there. It
// ignores the cursor, whose block may not be on the chain.
func (o *Observer) lowerOrigin(ctx context.Context, k *state) error {
	if o.config.Since == 0 || o.memory.lowered || k.origin < 0 {
		return nil
	}
	to, ok, err := o.before(ctx, o.newView(state{}), o.config.Since)
	if err != nil || !ok {
		return err
	}
	lowered, err := observe.LowerOrigin(ctx, o.config.Ledger, o.config.OfferID, o.config.Rail.Account(), to)
	if lowered {
		o.config.Logger.Info("bitcoin payments are read again", "since", time.Unix(o.config.Since, 0).UTC(), "after_block", to)
		*k, err = o.loadState(ctx)
	}
	o.memory.lowered = err == nil
	return err
}

// before returns the height of the last block before a moment (Unix seconds); ok is false if too few hosts agree.
func (o *Observer) before(ctx context.Context, v *view, moment int64) (height int64, ok bool, err error) {
	err = v.each(ctx, func(ctx context.Context, r *reader) (err error) {
		r.first, err = r.before(ctx, moment)
		return err
	})
	if err != nil {
		return 0, false, err
	}
	height, ok = agreed(v, func(r *reader) (int64, bool) { return r.first, true })
	return height, ok, nil
}

// before returns the height of the last block before a moment, in Unix seconds; at least 0. Only the median time past
// (BIP 113) grows with the height, and it lags by about five blocks. Among the uncertain blocks, the search ends at the
// first whose own time is after the moment. So one block too many may count, but never one too few.
func (r *reader) before(ctx context.Context, moment int64) (int64, error) {
	low, high := int64(-1), r.tip.height+1 // low's median is not after the moment, high's is
	var page []header
	for at := r.tip.height; low+1 < high; at = low + (high-low)/2 {
		var err error
		if page, err = r.headers(ctx, at); err != nil {
			return 0, err
		}
		i := slices.IndexFunc(page, func(h header) bool { return h.Median <= moment })
		switch {
		case i < 0:
			high = page[len(page)-1].Height
		default:
			low = page[i].Height
			if i > 0 {
				high = low + 1
			}
		}
	}
	if low < 0 {
		return 0, r.checkTip(ctx)
	}
	if page[0].Height != low {
		var err error
		if page, err = r.headers(ctx, low); err != nil {
			return 0, err
		}
	}
	for _, h := range slices.Backward(page) {
		if h.Time > moment {
			low = h.Height - 1
			break
		}
	}
	return max(0, low), r.checkTip(ctx)
}
