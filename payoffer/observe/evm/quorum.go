package evm

import (
	"context"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// candidate is a movement as endpoints show it.
type candidate struct {
	movement
	block block
	// votes counts the endpoints that show it.
	votes int
}

// is reports whether an endpoint shows the same movement.
func (c *candidate) is(b *block, m movement) bool {
	return c.block.Hash == b.Hash && c.ordinal == m.ordinal && c.other == m.other && c.amount == m.amount && c.nonce == m.nonce
}

// tally is what the endpoints say of one transaction.
type tally struct {
	candidates []candidate
	// answered counts the endpoints that could answer, and behind those that have not reached its block.
	answered, behind int
	failed           error
}

// tally reads a transaction from all endpoints. An endpoint that does not show it is not counted before it has reached
// the block at reach.
func (v *view) tally(ctx context.Context, transaction common.Hash, reach uint64, read func(*receipt) []movement) tally {
	found, errs := each(v.readers, func(r *reader) (*placed, error) { return r.canonical(ctx, transaction) })
	var t tally
	for i, r := range v.readers {
		switch {
		case errs[i] != nil:
			t.failed = errs[i]
		case found[i] == nil && uint64(r.latest.Number) < reach:
			t.behind++
		default:
			t.answered++
			t.count(found[i], read)
		}
	}
	return t
}

func (t *tally) count(found *placed, read func(*receipt) []movement) {
	if found == nil || found.Status != 1 {
		return
	}
next:
	for _, m := range read(found.receipt) {
		for i := range t.candidates {
			if t.candidates[i].is(found.block, m) {
				t.candidates[i].votes++
				continue next
			}
		}
		t.candidates = append(t.candidates, candidate{m, *found.block, 1})
	}
}

// of returns the candidate that most endpoints show for a movement, how many endpoints deny it, and whether they
// contradict each other.
func (t *tally) of(ordinal int) (best candidate, denied int, contested bool) {
	denied = t.answered
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

// decide returns what to record of a movement. row is its receipt, nil for a new one. A nil result keeps the row, and
// p.decided says whether it is certain. A quorum of endpoints confirms or denies it. Otherwise it is pending and not
// counted. A confirmed one stays while one endpoint shows it and none contradicts.
func (p *cycle) decide(row *ledger.Receipt, id string, transaction common.Hash, ordinal int) (s *ledger.Observation) {
	v, t := p.view, p.tallies[transaction]
	best, denied, contested := t.of(ordinal)
	if contested {
		p.view.addProblem(&observe.Error{Code: observe.ErrDisagree, Host: p.hosts()})
	}
	held := row != nil && row.State == ledger.StatusConfirmed
	same := held && evidenceOf(*row).BlockHash == best.block.Hash
	p.decided[id] = false
	switch {
	case best.votes >= v.need:
		p.decided[id] = true
		// A head that moves back a little changes nothing.
		state := v.stateOf(best)
		if same {
			state = ledger.StatusConfirmed
		}
		s = p.observation(transaction, best, state, v.final)
	case best.votes > 0:
		if contested || !same {
			s = p.observation(transaction, best, ledger.StatusSeen, 0)
		}
	case row == nil:
	case denied >= v.need:
		p.decided[id] = true
		s = observe.Restated(*row, ledger.StatusDropped, causeReorg)
		s.Final = v.finalTime > row.OccurredAt+forgetAfter
	case held && (denied > 0 || t.behind > 0 && t.failed == nil):
		s = observe.Restated(*row, ledger.StatusSeen, causeUnproven)
	}
	return s
}

func (v *view) stateOf(c candidate) ledger.Status {
	if uint64(c.block.Number) <= v.confirm {
		return ledger.StatusConfirmed
	}
	return ledger.StatusSeen
}
