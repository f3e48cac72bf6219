package evm

import (
	"context"
	"sync"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// askBeside is how many transactions are asked for at the same time.
const askBeside = 8

// candidate is a movement where endpoints show it.
type candidate struct {
	movement
	block block
	// votes counts the endpoints that show it.
	votes int
}

// is reports whether an endpoint shows the same: what else the first one said
// of it is not compared.
func (c *candidate) is(b *block, m movement) bool {
	return c.block.Hash == b.Hash && c.ordinal == m.ordinal && c.from == m.from && c.amount == m.amount
}

// tally is what the endpoints say of one transaction.
type tally struct {
	candidates []candidate
	// spoke counts the endpoints that said what is on their chain. behind
	// counts those that have not reached the block where the transaction was,
	// and know nothing of it.
	spoke, behind int
	// failed is the error of one that could not be read, or nil.
	failed error
}

// tally asks all endpoints for a transaction: its movements as read finds
// them, if it is on the chain. One that does not show it and has not reached
// the block at reach says nothing.
func (v *view) tally(ctx context.Context, transaction common.Hash, reach uint64, read func(*receipt) []movement) tally {
	receipts, blocks, errs := make([]*receipt, len(v.readers)), make([]*block, len(v.readers)), make([]error, len(v.readers))
	var work sync.WaitGroup
	for i, r := range v.readers {
		work.Go(func() { receipts[i], blocks[i], errs[i] = r.canonical(ctx, transaction) })
	}
	work.Wait()
	var t tally
	for i, r := range v.readers {
		switch {
		case errs[i] != nil:
			t.failed = errs[i]
		case receipts[i] == nil && uint64(r.latest.Number) < reach:
			t.behind++
		default:
			t.spoke++
			t.count(receipts[i], blocks[i], read)
		}
	}
	return t
}

// count adds what one endpoint shows.
func (t *tally) count(r *receipt, b *block, read func(*receipt) []movement) {
	if r == nil || r.Status != 1 {
		return
	}
next:
	for _, m := range read(r) {
		for i := range t.candidates {
			if t.candidates[i].is(b, m) {
				t.candidates[i].votes++
				continue next
			}
		}
		t.candidates = append(t.candidates, candidate{m, *b, 1})
	}
}

// of sums up what is said of one movement: the candidate that most endpoints
// show, how many deny it, and whether they contradict each other.
func (t *tally) of(ordinal int) (best candidate, denied int, contested bool) {
	denied = t.spoke
	for _, c := range t.candidates {
		if c.ordinal != ordinal {
			continue
		}
		denied -= c.votes
		contested = contested || best.votes > 0
		if c.votes > best.votes {
			best = c
		}
	}
	return best, denied, contested || best.votes > 0 && denied > 0
}

// tallies asks for many transactions, some at a time.
func (v *view) tallies(ctx context.Context, reach map[common.Hash]uint64, read func(*receipt) []movement) map[common.Hash]tally {
	found := make(map[common.Hash]tally, len(reach))
	var mu sync.Mutex
	var work sync.WaitGroup
	slots := make(chan struct{}, askBeside)
	for transaction, number := range reach {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			t := v.tally(ctx, transaction, number, read)
			mu.Lock()
			defer mu.Unlock()
			found[transaction] = t
		})
	}
	work.Wait()
	return found
}

// decision is what a tally makes of a movement.
type decision struct {
	// sighting is to be recorded, nil to leave the row as it is.
	sighting *ledger.Sighting
	// sure says that enough endpoints agree.
	sure bool
	// contested says that they contradict each other.
	contested bool
}

// decide on a movement of a transaction. row is its receipt so far, nil for a
// new one.
//
// Enough endpoints confirm, and as many deny. Between these a movement is
// seen: it is not counted, and not forgotten. A confirmed one stays while no
// endpoint speaks against it and one shows it where it was; where the chain
// does not reach so far any more, nothing stands for it.
func (e *Observer) decide(v *view, row *ledger.Receipt, transaction common.Hash, ordinal int, t tally) decision {
	best, denied, contested := t.of(ordinal)
	held := row != nil && row.Status != ledger.StatusSeen && row.Status != ledger.StatusDropped
	same := held && evidenceOf(*row).BlockHash == best.block.Hash
	d := decision{contested: contested}
	switch {
	case best.votes >= v.need:
		d.sure = true
		// A head that goes back a little takes nothing back.
		state := v.stateOf(best)
		if same {
			state = ledger.StatusConfirmed
		}
		d.sighting = e.sighting(transaction, best, state, v.final)
	case best.votes > 0:
		if contested || !same {
			d.sighting = e.sighting(transaction, best, ledger.StatusSeen, 0)
		}
	case row == nil:
	case denied >= v.need:
		d.sure = true
		d.sighting = restated(*row, ledger.StatusDropped, causeReorg)
		d.sighting.Final = v.finalTime > row.OccurredAt+forgetAfter
	case held && (denied > 0 || t.behind > 0 && t.failed == nil):
		d.sighting = restated(*row, ledger.StatusSeen, causeUnproven)
	}
	return d
}

// stateOf is what a movement amounts to that enough endpoints show.
func (v *view) stateOf(c candidate) ledger.Status {
	if uint64(c.block.Number) <= v.confirm {
		return ledger.StatusConfirmed
	}
	return ledger.StatusSeen
}
