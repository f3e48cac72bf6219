package evm

import (
	"context"
	"strconv"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// backAtOnce is for how long a round reads the blocks before a lowered origin,
// after it has read the new ones: those come again every watchEvery.
const backAtOnce = watchEvery

// fill reads what lies after the origin, which was lowered, and up to the block
// back: from there downwards, one query of the most patient endpoint at a time.
// Each step commits how far it came together with what it found. Where one goes
// wrong the next round tries it again, and the new blocks do not care.
func (p *pass) fill(ctx context.Context, origin uint64) {
	if p.back < 0 || p.cursor == nil {
		return
	}
	p.filling = true
	back := min(uint64(p.back), p.covered) // what comes after the cursor is read anyway
	for began := p.config.Now(); p.filling && p.config.Now().Sub(began) < backAtOnce; {
		low := max(origin, back-min(p.view.span(), back)) + 1
		done, err := p.stepBack(ctx, low, back, low == origin+1)
		if err != nil {
			p.view.trouble(err)
		}
		if !done {
			return
		}
		back, p.filling = low-1, low > origin+1
	}
}

// stepBack reads one range, which may be empty, and commits that it was read.
// done is false where something in it is still open; the last one ends the reading.
func (p *pass) stepBack(ctx context.Context, low, high uint64, last bool) (done bool, err error) {
	var found discovery
	if low <= high {
		if found, err = p.find(ctx, low, high, ledger.CauseBackfilled); err != nil {
			return false, err
		}
		if found.sure < high {
			return false, p.record(ctx, nil, found.sightings)
		}
	}
	cursor, back := *p.cursor, ""
	if !last {
		back = strconv.FormatUint(low-1, 10)
	}
	cursor.Back, cursor.OKAt = &back, p.config.Now().Unix()
	err = p.record(ctx, &cursor, found.sightings)
	return err == nil, err
}
