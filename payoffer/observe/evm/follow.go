package evm

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// recordAtOnce bounds the rows of one ledger transaction, and the first page of rows.
	recordAtOnce = 200
	// askBeside is how many transactions are read in parallel.
	askBeside = 8
	// forgetAfter is how long, in seconds of finalized chain time, a transfer that left the chain is looked for. An
	// authorization expires in minutes.
	forgetAfter = 24 * 3600
)

// unfinal returns all receipts that the chain can still change.
func (p *cycle) unfinal(ctx context.Context) ([]ledger.Receipt, error) {
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

// followRows decides again on every receipt that is not final.
func (p *cycle) followRows(ctx context.Context) error {
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
	p.loadTallies(ctx, reach)
	var observations []ledger.Observation
	lost := false
	for _, row := range rows {
		s := p.decideAgain(row)
		if s != nil && !unchanged(row, *s) {
			lost = lost || s.State == ledger.StatusDropped
			observations = append(observations, *s)
		}
	}
	if lost {
		p.resetWatermark()
	}
	for part := range slices.Chunk(observations, recordAtOnce) {
		if err := p.record(ctx, nil, part); err != nil {
			return err
		}
	}
	return nil
}

// loadTallies reads the transactions that were not read in this cycle.
func (p *cycle) loadTallies(ctx context.Context, reach map[common.Hash]uint64) {
	var unread []common.Hash
	for transaction := range reach {
		if _, read := p.tallies[transaction]; !read {
			unread = append(unread, transaction)
		}
	}
	for part := range slices.Chunk(unread, askBeside) {
		found, _ := each(part, func(transaction common.Hash) (tally, error) {
			return p.view.tally(ctx, transaction, reach[transaction], p.movements), nil
		})
		for i, transaction := range part {
			p.tallies[transaction] = found[i]
		}
	}
}

func (p *cycle) decideAgain(row ledger.Receipt) *ledger.Observation {
	transaction := common.HexToHash(row.Transaction)
	t := p.tallies[transaction]
	s := p.decide(&row, row.ExternalID, transaction, ordinalOf(row))
	p.view.addProblem(t.failed)
	if !p.decided[row.ExternalID] {
		p.partial = true
		p.uncertain = p.uncertain || row.OccurredAt >= p.since
		if t.behind > 0 {
			p.view.addProblem(&observe.Error{Code: observe.ErrLagging, Host: p.hosts()})
		}
	}
	return s
}

// ordinalOf returns the last part of a receipt's external id.
func ordinalOf(row ledger.Receipt) int {
	ordinal, err := strconv.Atoi(row.ExternalID[strings.LastIndexByte(row.ExternalID, ':')+1:])
	if err != nil {
		return -1 // not a row of this chain
	}
	return ordinal
}

func unchanged(row ledger.Receipt, s ledger.Observation) bool {
	return row.State == s.State && row.Final == s.Final && row.Amount == s.Amount && row.Payer == s.Payer &&
		(s.Nonce == "" || row.Nonce == s.Nonce) && (row.Own || !s.Own) && bytes.Equal(row.Evidence, s.Evidence)
}
