package bitcoin

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// plan is what all endpoints are asked in one round: the same of each, so that
// what they say can be compared.
type plan struct {
	recalled
	// above is the height above which the addresses are read.
	above int64
	// index is that of the current address, oldest the first one that is read
	// with it, and last the one up to which the index may move at once.
	index, oldest, last uint32
	// walkFrom and walkTo are the old addresses whose turn it is.
	walkFrom, walkTo uint32
	// due are the receipts to be looked up, and byTransaction all that are not final.
	due           []ledger.Receipt
	byTransaction map[string][]ledger.Receipt
	// memory is to be kept once the round is recorded by enough hosts.
	memory memory
}

// plan decides what is read; nil while the chain is searched for used addresses.
func (o *Observer) plan(ctx context.Context, v *view, k recalled) (*plan, error) {
	p := &plan{recalled: k, memory: o.memory, byTransaction: make(map[string][]ledger.Receipt)}
	p.memory.turn++
	if err := o.setOrigin(ctx, v, p); err != nil {
		return nil, err
	}
	p.above = p.origin
	if o.config.Rail.Extended() {
		index, done, err := o.restore(ctx, v, k)
		if err != nil || !done {
			return nil, err
		}
		p.memory.search = o.memory.search
		p.index, p.oldest = index, index-min(index, gapLimit)
		p.last = min(index+gapLimit, maxIndex)
		p.walk(o.config.Now())
	} else {
		p.above = max(p.above, p.Height)
	}
	if err := o.watchUpTo(p.last); err != nil {
		return nil, err
	}
	o.lookUps(ctx, v, p)
	return p, nil
}

// walk takes some of the addresses below the oldest one: all of them in an hour.
func (p *plan) walk(now time.Time) {
	m := &p.memory
	if !now.Before(m.walkDue) {
		m.walking, m.walkDue = 0, now.Add(slowEvery)
	}
	p.walkFrom = min(m.walking, p.oldest)
	p.walkTo = min(p.walkFrom+max(slowAtOnce, p.oldest/uint32(slowEvery/pollEvery)+1), p.oldest)
	m.walking = p.walkTo
	m.walked = m.walked || m.walking >= p.oldest
}

// lookUps takes the receipts that are to be looked up where no list has them.
// Those that stood in a block are all looked up: they count, or are about to.
func (o *Observer) lookUps(ctx context.Context, v *view, p *plan) {
	fresh := slices.ContainsFunc(v.readers, func(r *reader) bool { return r.tip.hash != r.endpoint.words.tip.hash })
	var turns []ledger.Receipt
	for _, id := range slices.Sorted(maps.Keys(p.rows)) {
		row := p.rows[id]
		p.byTransaction[row.Transaction] = append(p.byTransaction[row.Transaction], row)
		switch proof := evidenceOf(row); {
		case row.Status == ledger.StatusDropped:
			// It is found by its address if it returns, and once a block it is
			// asked whether it can.
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
