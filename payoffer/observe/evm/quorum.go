package evm

import (
	"context"
	"sync"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// askBeside is how many transactions are asked for at the same time.
const askBeside = 8

// claim is what an endpoint shows of one movement: two show the same when
// their claims are equal.
type claim struct {
	block   common.Hash
	ordinal int
	from    common.Address
	amount  int64
}

// shown is a claim with the number of endpoints that show it.
type shown struct {
	claim
	votes    int
	number   uint64
	time     int64
	logIndex uint64
}

// testimony is what the endpoints say of one transaction.
type testimony struct {
	shown []shown
	// spoke counts the endpoints that said what is on their chain. behind
	// counts those that have not reached the block where the transaction was,
	// and know nothing of it.
	spoke, behind int
	// failed is the error of one that could not be read, or nil.
	failed error
}

// testify asks all endpoints for a transaction: its movements as read finds
// them, if it is on the chain. One that does not show it and has not reached
// the block at reach says nothing.
func (v *view) testify(ctx context.Context, transaction common.Hash, reach uint64, read func(*receipt) []movement) testimony {
	type word struct {
		receipt *receipt
		block   *block
		err     error
	}
	words := make([]word, len(v.readers))
	var work sync.WaitGroup
	for i, r := range v.readers {
		work.Go(func() {
			receipt, block, err := r.canonical(ctx, transaction)
			words[i] = word{receipt, block, err}
		})
	}
	work.Wait()
	var t testimony
	for i, w := range words {
		switch {
		case w.err != nil:
			t.failed = w.err
		case w.receipt == nil && uint64(v.readers[i].latest.Number) < reach:
			t.behind++
		default:
			t.spoke++
			t.hear(w.receipt, w.block, read)
		}
	}
	return t
}

// hear adds the claims of one endpoint.
func (t *testimony) hear(r *receipt, b *block, read func(*receipt) []movement) {
	if r == nil || r.Status != 1 {
		return
	}
next:
	for _, m := range read(r) {
		c := claim{b.Hash, m.ordinal, m.from, m.amount}
		for i := range t.shown {
			if t.shown[i].claim == c {
				t.shown[i].votes++
				continue next
			}
		}
		t.shown = append(t.shown, shown{c, 1, uint64(b.Number), int64(b.Time), m.logIndex})
	}
}

// of sums up what is said of one movement: the claim that most endpoints make,
// how many deny it, and whether they contradict each other.
func (t *testimony) of(ordinal int) (best shown, denied int, contested bool) {
	denied = t.spoke
	for _, s := range t.shown {
		if s.ordinal != ordinal {
			continue
		}
		denied -= s.votes
		contested = contested || best.votes > 0
		if s.votes > best.votes {
			best = s
		}
	}
	return best, denied, contested || best.votes > 0 && denied > 0
}

// testimonies asks for many transactions, some at a time.
func (v *view) testimonies(ctx context.Context, reach map[common.Hash]uint64, read func(*receipt) []movement) map[common.Hash]testimony {
	found := make(map[common.Hash]testimony, len(reach))
	var mu sync.Mutex
	var work sync.WaitGroup
	slots := make(chan struct{}, askBeside)
	for transaction, number := range reach {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			t := v.testify(ctx, transaction, number, read)
			mu.Lock()
			defer mu.Unlock()
			found[transaction] = t
		})
	}
	work.Wait()
	return found
}

// verdict is what a testimony makes of a movement.
type verdict struct {
	// sighting is to be recorded, nil to leave the row as it is.
	sighting *ledger.Sighting
	// sure says that enough endpoints agree.
	sure bool
	// contested says that they contradict each other.
	contested bool
}

// judge decides on a movement of a transaction. row is its receipt so far, nil
// for a new one.
//
// Enough endpoints confirm, and as many deny. Between these a movement is
// seen: it is not counted, and not forgotten. A confirmed one stays while no
// endpoint speaks against it and one shows it where it was; where the chain
// does not reach so far any more, nothing stands for it.
func (e *Observer) judge(v *view, row *ledger.Receipt, transaction common.Hash, ordinal int, t testimony) verdict {
	best, denied, contested := t.of(ordinal)
	held := row != nil && row.Status != ledger.StatusSeen && row.Status != ledger.StatusDropped
	same := held && evidenceOf(*row).BlockHash == best.block
	ruling := verdict{contested: contested}
	switch {
	case best.votes >= v.need:
		ruling.sure = true
		// A head that goes back a little takes nothing back.
		state := ledger.StatusSeen
		if best.number <= v.confirm || same {
			state = ledger.StatusConfirmed
		}
		s := e.sighting(transaction, best, state, state == ledger.StatusConfirmed && best.number <= v.final)
		ruling.sighting = &s
	case best.votes > 0:
		if contested || !same {
			s := e.sighting(transaction, best, ledger.StatusSeen, false)
			ruling.sighting = &s
		}
	case row == nil:
	case denied >= v.need:
		ruling.sure = true
		s := restated(*row, ledger.StatusDropped, causeReorg)
		s.Final = v.finalTime > row.OccurredAt+forgetAfter
		ruling.sighting = &s
	case held && (denied > 0 || t.behind > 0 && t.failed == nil):
		s := restated(*row, ledger.StatusSeen, causeUnproven)
		ruling.sighting = &s
	}
	return ruling
}
