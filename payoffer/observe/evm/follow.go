package evm

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// recordAtOnce bounds the rows of one transaction of the ledger, and is
	// how many are asked for at first.
	recordAtOnce = 200
	// askBeside is how many transactions are asked for at the same time.
	askBeside = 8
	// forgetAfter is how long, in seconds of finalized chain time, a transfer
	// that left the chain is looked for: an authorization expires in minutes,
	// and other transactions do not wait for days to be mined again.
	forgetAfter = 24 * 3600
)

// unfinal reads all receipts that the chain may still change: many small ones
// must not keep a large one waiting.
func (p *pass) unfinal(ctx context.Context) ([]ledger.Receipt, error) {
	for limit := recordAtOnce; ; limit *= 2 {
		rows, err := p.config.Ledger.Unfinal(ctx, p.config.OfferID, p.account, limit)
		if err != nil {
			return nil, observe.ErrNoLedger
		}
		if len(rows) < limit {
			return rows, nil
		}
	}
}

// follow decides on every receipt that is not final anew.
func (p *pass) follow(ctx context.Context) error {
	rows, err := p.unfinal(ctx)
	if err != nil {
		return err
	}
	p.busy = len(rows) > 0
	reach := make(map[common.Hash]uint64)
	for _, row := range rows {
		transaction := common.HexToHash(row.Transaction)
		reach[transaction] = max(reach[transaction], evidenceOf(row).Block)
	}
	p.ask(ctx, reach)
	var sightings []ledger.Sighting
	lost := false
	for _, row := range rows {
		s := p.again(row)
		if s != nil && !unchanged(row, *s) {
			lost = lost || s.State == ledger.StatusDropped
			sightings = append(sightings, *s)
		}
	}
	if lost {
		p.uncover()
	}
	for part := range slices.Chunk(sightings, recordAtOnce) {
		if err := p.record(ctx, nil, part); err != nil {
			return err
		}
	}
	return nil
}

// ask asks for the transactions that were not asked for yet.
func (p *pass) ask(ctx context.Context, reach map[common.Hash]uint64) {
	unasked := maps.Clone(reach)
	maps.DeleteFunc(unasked, func(transaction common.Hash, _ uint64) bool {
		_, asked := p.tallies[transaction]
		return asked
	})
	maps.Copy(p.tallies, p.tally(ctx, unasked))
}

// tally asks for transactions, some at a time, and for their movements.
func (p *pass) tally(ctx context.Context, reach map[common.Hash]uint64) map[common.Hash]tally {
	tallies := make(map[common.Hash]tally)
	for part := range slices.Chunk(slices.Collect(maps.Keys(reach)), askBeside) {
		found, _ := each(part, func(transaction common.Hash) (tally, error) {
			return p.view.tally(ctx, transaction, reach[transaction], p.movements), nil
		})
		for i, transaction := range part {
			tallies[transaction] = found[i]
		}
	}
	return tallies
}

// again decides on one receipt.
func (p *pass) again(row ledger.Receipt) *ledger.Sighting {
	transaction := common.HexToHash(row.Transaction)
	t := p.tallies[transaction]
	s := p.decide(&row, row.ExternalID, transaction, ordinalOf(row))
	p.view.trouble(t.failed)
	if !p.decided[row.ExternalID] {
		p.partial = true
		p.open = p.open || row.OccurredAt >= p.since
		if t.behind > 0 {
			p.view.trouble(&observe.Error{Code: observe.ErrLagging, Host: p.hosts()})
		}
	}
	return s
}

// ordinalOf is the last part of a receipt's external id.
func ordinalOf(row ledger.Receipt) int {
	ordinal, err := strconv.Atoi(row.ExternalID[strings.LastIndexByte(row.ExternalID, ':')+1:])
	if err != nil {
		return -1 // a row that the chain cannot show
	}
	return ordinal
}

// unchanged reports whether a sighting says nothing new of a receipt.
func unchanged(row ledger.Receipt, s ledger.Sighting) bool {
	return row.State == s.State && row.Final == s.Final && row.Amount == s.Amount && row.Payer == s.Payer &&
		(s.Nonce == "" || row.Nonce == s.Nonce) && (row.Own || !s.Own) && bytes.Equal(row.Evidence, s.Evidence)
}
