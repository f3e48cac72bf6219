package bitcoin

import (
	"context"
	"encoding/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const asset = "BTC"

// maxInputs is how many inputs the evidence names. One that is spent elsewhere proves that the payment is void.
const maxInputs = 8

// evidence has the block of a payment, if any, and the outputs that it spends, from the last reading.
type evidence struct {
	Address   string   `json:"address"`
	Block     int64    `json:"block,omitempty"`
	BlockHash string   `json:"blockHash,omitempty"`
	Inputs    []string `json:"inputs"`
	// First is when enough hosts first showed the payment in the mempool, in Unix seconds; 0 for never.
	First int64 `json:"first,omitempty"`
	// MicroUSD is the price of one bitcoin when the payment was found in a recent block, in millionths of a US
	// dollar; 0 for none. It is not fixed earlier, because the payer could withdraw an unconfirmed payment as the
	// price moves.
	MicroUSD int64 `json:"microUSD,omitempty"`
}

func evidenceOf(row ledger.Receipt) (e evidence) {
	if json.Unmarshal(row.Evidence, &e) != nil || e.Block < 0 || e.Block > maxHeight {
		return evidence{}
	}
	return e
}

// observeOutputs adds the outputs of a transaction that pay this rail to the reading.
func (o *Observer) observeOutputs(ctx context.Context, r *reading, tx transaction) error {
	paid := o.paid(tx)
	for i, out := range tx.Outputs {
		name := outpoint{tx.ID, uint32(i)}
		w, ours := o.scripts[out.Script]
		if !ours {
			continue
		}
		paid.next(out.Value)
		row, recorded, err := o.row(ctx, r, name, tx.Status)
		if err != nil {
			return err
		}
		if row.Final || !recorded && r.older(tx.Status) {
			continue
		}
		if !recorded && !tx.Status.Confirmed && !r.admit(r.decided[tx.ID]) {
			continue
		}
		s, err := o.observation(ctx, r, tx, w, name, paid, row)
		if err != nil {
			return err
		}
		r.observations[name.String()] = s
	}
	return nil
}

// older reports whether a transaction is in a block from before the account was first watched. It can have a receipt if
// an endpoint showed it in the mempool. A later payment that a reorganization moved that low has a later block time.
func (r *reading) older(s status) bool {
	return s.Confirmed && s.Height <= r.origin && s.Time < r.account.Since
}

// row returns the receipt of an output, if any. Final receipts were not loaded, nor all dropped ones.
func (o *Observer) row(ctx context.Context, r *reading, name outpoint, s status) (row ledger.Receipt, recorded bool, err error) {
	if row, recorded = r.rows[name.String()]; recorded || r.all && (!s.Confirmed || s.Height > r.Height) {
		return row, recorded, nil
	}
	row, recorded, err = o.config.Ledger.Receipt(ctx, o.config.OfferID, o.config.Rail.Account(), name.String())
	if err != nil {
		return row, false, observe.ErrNoLedger
	}
	return row, recorded, nil
}

func (o *Observer) observation(ctx context.Context, r *reading, tx transaction, w watched, name outpoint, paid part, row ledger.Receipt) (ledger.Observation, error) {
	depth := r.depths[tx.ID]
	before := evidenceOf(row)
	proof := evidence{Address: w.address, Inputs: make([]string, 0, maxInputs), First: before.First, MicroUSD: before.MicroUSD}
	for _, in := range tx.Inputs[:min(len(tx.Inputs), maxInputs)] {
		proof.Inputs = append(proof.Inputs, in.String())
	}
	s := ledger.Observation{
		Offer: o.config.OfferID, Account: o.config.Rail.Account(), Rail: o.config.Rail.Name(),
		ExternalID: name.String(), Transaction: tx.ID, Asset: asset, Amount: paid.satoshis,
		State: ledger.StatusSeen, EvidenceLevel: ledger.LevelChain,
		Own: row.Own || r.own[tx.ID], Once: true, Testnet: o.config.Rail.Test(), OccurredAt: row.OccurredAt, Cause: "mempool",
	}
	switch {
	case depth > 0:
		proof.Block, proof.BlockHash = tx.Status.Height, tx.Status.Block
		s.OccurredAt, s.Cause = tx.Status.Time, "chain"
		if proof.MicroUSD == 0 {
			proof.MicroUSD = o.priceOf(tx.Status)
		}
		if row.ID == 0 && tx.Status.Time < r.account.Since {
			s.Cause = ledger.CauseBackfilled
		}
	case row.ID == 0:
		s.OccurredAt = o.config.Now().Unix()
	}
	// A payment first shown in a block has the block's time, unless the miner's clock is ahead.
	if now := o.config.Now().Unix(); r.decided[tx.ID] && proof.First == 0 && (depth == 0 || s.OccurredAt > now) {
		proof.First = now
	}
	s.Evidence = offer.JSON(proof)
	if s.Own { // not a payment, so it needs no value
		s.State, s.Final = ledger.StatusMoved, depth >= o.final()
		return s, nil
	}
	if r.older(tx.Status) {
		s.State, s.Cause, s.Final = ledger.StatusDropped, "older", depth >= o.final()
		return s, nil
	}
	var err error
	counts := depth >= int64(o.config.Confirmations)
	if s.USDCents, s.ValueBasis, err = o.value(ctx, row, paid, proof, s.OccurredAt, counts); err != nil {
		return ledger.Observation{}, err
	}
	if counts {
		s.State, s.Final = ledger.StatusConfirmed, depth >= o.final()
	}
	return s, nil
}

// paid returns the payment of a transaction to this rail, before its first output.
func (o *Observer) paid(tx transaction) (p part) {
	for _, out := range tx.Outputs {
		if _, ours := o.scripts[out.Script]; ours {
			p.total += out.Value
		}
	}
	return p
}
