package bitcoin

import (
	"context"
	"slices"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// beginning is where the observation of an account begins, as the ledger has it.
type beginning struct {
	account ledger.Account
	// origin is the block above which money counts; -1 while unknown.
	origin int64
}

func (o *Observer) beginning(ctx context.Context) (b beginning, err error) {
	if b.account, err = observe.Account(ctx, o.config.Ledger, o.config.OfferID, o.config.Rail.Account()); err != nil {
		return b, err
	}
	if b.origin, err = observe.Position(b.account.Origin); b.origin > maxHeight {
		err = observe.ErrNoLedger
	}
	return b, err
}

// setOrigin stores the origin of a new account: the last block before the account was first watched. However late an
// endpoint answers, what was paid in between counts.
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
	// All addresses are to be read from there.
	p.memory.origin = p.origin
	p.memory.walking, p.memory.walkDue = 0, o.config.Now().Add(slowEvery)
	p.memory.walked = !o.config.Rail.Extended()
	return nil
}

// lowerOrigin moves the origin back to Config.Since, once a process, and has everything read again from there. It reads
// the blocks without regard to the cursor, whose block may not be on the chain.
func (o *Observer) lowerOrigin(ctx context.Context, origin int64) (lowered bool, err error) {
	if o.config.Since == 0 || o.memory.lowered || origin < 0 {
		return false, nil
	}
	to, ok, err := o.before(ctx, o.look(recalled{}), o.config.Since)
	if err != nil || !ok {
		return false, err
	}
	lowered, err = observe.LowerOrigin(ctx, o.config.Ledger, o.config.OfferID, o.config.Rail.Account(), to)
	if lowered {
		o.config.Logger.Info("bitcoin payments are read again", "since", time.Unix(o.config.Since, 0).UTC(), "after_block", to)
	}
	o.memory.lowered = err == nil
	return lowered, err
}

// before is the height of the last block before a moment (Unix seconds); ok is
// false where not enough hosts find the same one.
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

// before is the height of the last block before a moment, in Unix seconds; at
// least 0.
//
// Only the median time past (BIP 113) grows with the height. It lags by about
// five blocks, so that of the blocks that it leaves open their own times decide.
// Those are the miners' clocks, and the first of them that is after the moment
// ends what was before: a block too many counts rather than one too few.
func (r *reader) before(ctx context.Context, moment int64) (int64, error) {
	low, high := int64(-1), r.tip.height+1 // the median of low is not after the moment, that of high is
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
		return 0, r.unmoved(ctx)
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
	return max(0, low), r.unmoved(ctx)
}
