package evm

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// cover makes the cursor at a final block, up to which the sightings are all that
// was not recorded; none where that is no news. It goes no further than what left
// the account is known.
func (p *pass) cover(ctx context.Context, number uint64, sightings []ledger.Sighting) (*ledger.Cursor, error) {
	if number <= p.covered {
		return nil, nil
	}
	through, err := p.noteOutgoing(ctx, p.covered+1, number, sightings)
	if err != nil {
		return nil, err
	}
	return p.cursorAt(ctx, through), nil
}

// noteOutgoing keeps the transfers that left the account in a range of final
// blocks: some of them may be refunds. It costs one more query a range, and
// returns the block up to which they are known. sightings are what the range
// holds besides.
func (p *pass) noteOutgoing(ctx context.Context, low, high uint64, sightings []ledger.Sighting) (through uint64, err error) {
	from := wordOf(p.payTo)
	s, err := p.sweep(ctx, filter{p.token, []any{topicTransfer, from}}, low, high, 4*queriesAtOnce) // as many as the payments took, if smaller ones
	if err != nil {
		// The receipts are there all the same.
		p.view.trouble(err)
		return low - 1, nil
	}
	if !s.whole {
		return low - 1, nil
	}
	left := payments{s, make(map[common.Hash]uint64)}
	for _, l := range s.logs {
		if _, ok := p.left(&l); ok {
			left.add(&l)
		}
	}
	through = s.through
	tallies := p.tally(ctx, left.transactions, p.leaving)
	var outgoing []ledger.Outgoing
	for _, transaction := range left.sorted() {
		t := tallies[transaction]
		agreed := slices.DeleteFunc(slices.Clone(t.candidates), func(c candidate) bool { return c.votes < p.view.need })
		if len(agreed) == 0 {
			p.view.trouble(cmp.Or(t.failed, error(&observe.Error{Code: observe.ErrDisagree, Host: p.hosts()})))
			through = min(through, left.transactions[transaction]-1)
		}
		for _, c := range agreed {
			outgoing = append(outgoing, p.outgoing(transaction, c))
		}
	}
	if len(outgoing) == 0 {
		return through, nil
	}
	// They go to those who have paid, maybe in the same range.
	if err := p.record(ctx, nil, sightings); err != nil {
		return 0, err
	}
	if err := p.config.Ledger.NoteOutgoing(ctx, outgoing...); err != nil {
		return 0, observe.ErrNoLedger
	}
	return through, nil
}

// left reads a log as a Transfer from the account to somebody else.
func (e *Observer) left(l *log) (movement, bool) {
	from, to, amount, ok := e.transfer(l)
	return movement{0, to, amount, uint64(l.Index), ""}, ok && from == e.payTo && to != e.payTo && amount >= dust
}

// leaving are all such Transfers of a receipt.
func (e *Observer) leaving(r *receipt) []movement {
	var found []movement
	for position := range r.Logs {
		if m, ok := e.left(&r.Logs[position]); ok {
			m.ordinal = position
			found = append(found, m)
		}
	}
	return found
}

// outgoing names a transfer as receipts are named.
func (e *Observer) outgoing(transaction common.Hash, c candidate) ledger.Outgoing {
	return ledger.Outgoing{
		Offer: e.config.OfferID, Account: e.account, ExternalID: e.externalID(transaction, c.ordinal),
		Transaction: strings.ToLower(transaction.Hex()), To: strings.ToLower(c.other.Hex()),
		Asset: strings.ToLower(e.token.Hex()), Amount: c.amount, OccurredAt: int64(c.block.Time),
	}
}
