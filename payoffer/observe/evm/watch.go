package evm

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/ethereum/go-ethereum/core/types"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// watchEvery is how often the chain is read.
	watchEvery = 4 * time.Second
	// watchAtOnce bounds the rows of one round.
	watchAtOnce = 200
	// forgetAfter is how long, in seconds of finalized chain time, a transfer
	// that left the chain is looked for: an authorization expires in minutes,
	// and other transactions do not wait for days to be mined again.
	forgetAfter = 24 * 3600
)

// Rows are the receipts that the chain may still change.
type Rows interface {
	Unfinal(ctx context.Context, offer, account string, limit int) ([]ledger.Receipt, error)
	Record(ctx context.Context, cursor *ledger.Cursor, sightings ...ledger.Sighting) ([]ledger.Receipt, error)
}

// Watch follows the receipts of the rail until they are final: confirmed at
// the configured level, dropped when their transaction left the chain, seen
// again when it came back. It ends with ctx. A source that does not answer is
// logged once.
func (e *Observer) Watch(ctx context.Context, rows Rows, log *slog.Logger) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	sick := false
	for {
		err := e.Follow(ctx, rows)
		if err != nil && !sick && ctx.Err() == nil {
			log.Warn("the chain cannot be read; its receipts wait", "rail", e.usdc.Name(), "error", err.Error())
		}
		if err == nil && sick {
			log.Info("the chain can be read again", "rail", e.usdc.Name())
		}
		sick = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Follow looks once at every receipt that is not final.
func (e *Observer) Follow(ctx context.Context, rows Rows) error {
	receipts, err := rows.Unfinal(ctx, e.offerID, e.usdc.Account(), watchAtOnce)
	if err != nil {
		return &observe.Error{Code: observe.ErrLedger, Host: "ledger"}
	}
	var sightings []ledger.Sighting
	err = e.each(ctx, func(endpoint *endpoint) error {
		sightings = sightings[:0]
		heads, err := e.heads(ctx, endpoint)
		if err != nil {
			return err
		}
		for _, row := range receipts {
			s, err := e.again(ctx, endpoint, heads, row)
			if err != nil {
				return err
			}
			sightings = append(sightings, s)
		}
		return nil
	})
	if err != nil || len(sightings) == 0 {
		return err
	}
	if _, err := rows.Record(ctx, nil, sightings...); err != nil {
		return &observe.Error{Code: observe.ErrLedger, Host: "ledger"}
	}
	return nil
}

// again reads the transaction of a receipt anew. One that is not on the chain
// now is dropped; the same key is seen again if it returns.
func (e *Observer) again(ctx context.Context, endpoint *endpoint, h heads, row ledger.Receipt) (ledger.Sighting, error) {
	receipt, block, err := endpoint.canonical(ctx, row.Transaction)
	if err != nil {
		return ledger.Sighting{}, err
	}
	if receipt != nil && receipt.Status == types.ReceiptStatusSuccessful {
		for position := range receipt.Logs {
			m, ok := e.transferAt(receipt, position)
			if !ok {
				continue
			}
			if s, err := e.sighting(h, receipt, block, m); err != nil || s.ExternalID == row.ExternalID {
				return s, err
			}
		}
	}
	return e.gone(ctx, endpoint, h, row)
}

// gone is the sighting of a transfer that is not on the chain any more. A node
// that has not reached the transfer's block yet knows nothing of it.
func (e *Observer) gone(ctx context.Context, endpoint *endpoint, h heads, row ledger.Receipt) (ledger.Sighting, error) {
	var was evidence
	if err := json.Unmarshal(row.Evidence, &was); err != nil {
		return ledger.Sighting{}, &observe.Error{Code: observe.ErrLedger, Host: "ledger"}
	}
	head, err := endpoint.head(ctx, Latest)
	if err != nil {
		return ledger.Sighting{}, err
	}
	if head.Number.Uint64() < was.Block {
		return ledger.Sighting{}, &observe.Error{Code: observe.ErrLagging, Host: endpoint.host}
	}
	s := dropped(row)
	s.Final = h.final != nil && int64(h.final.Time) > row.OccurredAt+forgetAfter
	return s, nil
}

func dropped(row ledger.Receipt) ledger.Sighting {
	return ledger.Sighting{
		Offer: row.Offer, Account: row.Account, Rail: row.Rail, ExternalID: row.ExternalID, Transaction: row.Transaction,
		Asset: row.Asset, Amount: row.Amount, USDCents: row.USDCents, State: ledger.StatusDropped,
		EvidenceLevel: ledger.LevelChain, Evidence: row.Evidence, Payer: row.Payer, Testnet: row.Testnet,
		OccurredAt: row.OccurredAt, Cause: "reorg",
	}
}
