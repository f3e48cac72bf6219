package bitcoin

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// beginning is where the observation of an account begins, as the ledger holds it.
type beginning struct {
	account ledger.Account
	// origin is the block above which money counts; -1 while unknown.
	origin int64
	// back is the block up to which payments are still to be read back, after the
	// origin was lowered; -1 when none are.
	back int64
}

func (o *Observer) beginning(ctx context.Context) (b beginning, err error) {
	if b.account, err = observe.Account(ctx, o.config.Ledger, o.config.OfferID, o.config.Rail.Account()); err != nil {
		return b, err
	}
	if b.origin, err = blockOf(b.account.Origin); err == nil {
		b.back, err = blockOf(b.account.Back)
	}
	return b, err
}

// blockOf reads a position of the account; -1 for none.
func blockOf(text string) (int64, error) {
	if text == "" {
		return -1, nil
	}
	height, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !within(height, maxHeight) {
		return 0, observe.ErrNoLedger
	}
	return height, nil
}

// begin sets the origin of an account that is observed for the first time, to the
// last block before it was first watched: however late an endpoint answers, what
// was paid meanwhile counts. Once a process it lowers the origin to Config.Since.
func (o *Observer) begin(ctx context.Context, v *view, p *plan) (err error) {
	switch {
	case p.origin < 0:
		err = o.setOrigin(ctx, v, p)
	case o.config.Since > 0 && p.found && !p.memory.lowered:
		err = o.lowerOrigin(ctx, v, p)
	}
	if err != nil || p.memory.origin == p.origin {
		return err
	}
	// All addresses are to be read from there on.
	p.memory.origin = p.origin
	p.memory.walking, p.memory.walkDue = 0, o.config.Now().Add(slowEvery)
	p.memory.walked = !o.config.Rail.Extended()
	return nil
}

func (o *Observer) setOrigin(ctx context.Context, v *view, p *plan) (err error) {
	// Of an account whose first start was not kept it is the newest block.
	first, ok := reached(v, func(r *reader) (int64, bool) { return r.tip.height, true })
	if started := p.account.Since; started > 0 {
		if o.config.ClockOffset != nil {
			started -= int64(o.config.ClockOffset() / time.Second)
		}
		first, ok, err = o.before(ctx, v, started)
	}
	if err == nil && !ok {
		err = v.undecided()
	}
	if err != nil {
		return err
	}
	p.origin, err = observe.Origin(ctx, o.config.Ledger, o.config.OfferID, o.config.Rail.Account(), first)
	return err
}

// lowerOrigin waits for the first cursor: what lies above the first origin is
// then told from what is read back.
func (o *Observer) lowerOrigin(ctx context.Context, v *view, p *plan) error {
	to, ok, err := o.before(ctx, v, o.config.Since)
	if err != nil || !ok {
		return err
	}
	lowered, err := observe.LowerOrigin(ctx, o.config.Ledger, o.config.OfferID, o.config.Rail.Account(), to)
	if err != nil {
		return err
	}
	if lowered {
		o.config.Logger.Info("bitcoin payments from before the first start are read back", "since", time.Unix(o.config.Since, 0).UTC(), "after_block", to)
		if p.beginning, err = o.beginning(ctx); err != nil {
			return err
		}
	}
	p.memory.lowered = true
	return nil
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
