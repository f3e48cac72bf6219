package evm

import (
	"context"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

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
	return c.block.Hash == b.Hash && c.ordinal == m.ordinal && c.other == m.other && c.amount == m.amount && c.nonce == m.nonce
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
	found, errs := each(v.readers, func(r *reader) (*placed, error) { return r.canonical(ctx, transaction) })
	var t tally
	for i, r := range v.readers {
		switch {
		case errs[i] != nil:
			t.failed = errs[i]
		case found[i] == nil && uint64(r.latest.Number) < reach:
			t.behind++
		default:
			t.spoke++
			t.count(found[i], read)
		}
	}
	return t
}

// count adds what one endpoint shows.
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

// decide on a movement of a transaction by its tally. row is its receipt so far,
// nil for a new one. The sighting is to be recorded, nil leaves the row as it is;
// p.decided says whether enough endpoints agree.
//
// Enough endpoints confirm, and as many deny. Between these a movement is
// seen: it is not counted, and not forgotten. A confirmed one stays while no
// endpoint speaks against it and one shows it where it was; where the chain
// does not reach so far any more, nothing stands for it.
func (p *pass) decide(row *ledger.Receipt, id string, transaction common.Hash, ordinal int) (s *ledger.Sighting) {
	v, t := p.view, p.tallies[transaction]
	best, denied, contested := t.of(ordinal)
	if contested {
		p.view.trouble(&observe.Error{Code: observe.ErrDisagree, Host: p.hosts()})
	}
	held := row != nil && row.State == ledger.StatusConfirmed
	same := held && evidenceOf(*row).BlockHash == best.block.Hash
	p.decided[id] = false
	switch {
	case best.votes >= v.need:
		p.decided[id] = true
		// A head that goes back a little takes nothing back.
		state := v.stateOf(best)
		if same {
			state = ledger.StatusConfirmed
		}
		s = p.sighting(transaction, best, state, v.final)
	case best.votes > 0:
		if contested || !same {
			s = p.sighting(transaction, best, ledger.StatusSeen, 0)
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

// stateOf is what a movement amounts to that enough endpoints show.
func (v *view) stateOf(c candidate) ledger.Status {
	if uint64(c.block.Number) <= v.confirm {
		return ledger.StatusConfirmed
	}
	return ledger.StatusSeen
}
