package bitcoin

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// plan has the questions of one cycle to all endpoints. They are the same, so that the reports can be compared.
type plan struct {
	state
	// above is the height above which the addresses are read.
	above int64
	// index is the index of the current address, oldest that of the first address read with it, and last the highest
	// one to which it can advance.
	index, oldest, last uint32
	// sweepFrom and sweepTo are the old addresses to read in this cycle.
	sweepFrom, sweepTo uint32
	// due contains the receipts to look up, and byTransaction all that are not final.
	due           []ledger.Receipt
	byTransaction map[string][]ledger.Receipt
	// memory is kept if the cycle is recorded.
	memory memory
}

// plan decides what to read; nil while the chain is searched for used addresses.
func (o *Observer) plan(ctx context.Context, v *view, k state) (*plan, error) {
	p := &plan{state: k, memory: o.memory, byTransaction: make(map[string][]ledger.Receipt)}
	p.memory.turn++
	if err := o.setOrigin(ctx, v, p); err != nil {
		return nil, err
	}
	p.above = p.origin
	if o.config.Rail.Extended() {
		index, done, err := o.findIndex(ctx, v, k)
		if err != nil || !done {
			return nil, err
		}
		p.memory.search = o.memory.search
		p.index, p.oldest = index, index-min(index, gapLimit)
		p.last = min(index+gapLimit, maxIndex)
		p.planSweep(o.config.Now())
	} else {
		p.above = max(p.above, p.Height)
	}
	if err := o.watchUpTo(p.last); err != nil {
		return nil, err
	}
	o.planLookups(ctx, v, p)
	return p, nil
}

// planSweep selects some of the old addresses, so that all are read within an hour.
func (p *plan) planSweep(now time.Time) {
	m := &p.memory
	if !now.Before(m.sweepDue) {
		m.sweepNext, m.sweepDue = 0, now.Add(slowEvery)
	}
	p.sweepFrom = min(m.sweepNext, p.oldest)
	p.sweepTo = min(p.sweepFrom+max(slowAtOnce, p.oldest/uint32(slowEvery/pollEvery)+1), p.oldest)
	m.sweepNext = p.sweepTo
	m.swept = m.swept || m.sweepNext >= p.oldest
}

// planLookups selects the receipts to look up if no list has them: all that were in a block, and some of the others.
func (o *Observer) planLookups(ctx context.Context, v *view, p *plan) {
	fresh := slices.ContainsFunc(v.readers, func(r *reader) bool { return r.tip.hash != r.endpoint.responses.tip.hash })
	var turns []ledger.Receipt
	for _, id := range slices.Sorted(maps.Keys(p.rows)) {
		row := p.rows[id]
		p.byTransaction[row.Transaction] = append(p.byTransaction[row.Transaction], row)
		switch proof := evidenceOf(row); {
		case row.Status == ledger.StatusDropped:
			// If it returns, its address list has it. A new block can rule that out.
			if fresh {
				turns = append(turns, row)
			}
		case proof.Block > 0:
			p.due = append(p.due, row)
		default:
			turns = append(turns, row)
		}
	}
	for i := range min(recheckAtOnce, len(turns)) {
		p.due = append(p.due, turns[(p.memory.turn*recheckAtOnce+i)%len(turns)])
	}
}
