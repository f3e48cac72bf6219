package bitcoin

import (
	"context"
	"encoding/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const asset = "BTC"

// maxInputs is how many inputs the evidence names. A listed transaction that spends one of them replaces the payment.
const maxInputs = 8

// evidence has the block of a payment, if any, and the outputs that it spends, from the last reading.
type evidence struct {
	Address   string   `json:"address"`
	Block     int64    `json:"block,omitempty"`
	BlockHash string   `json:"blockHash,omitempty"`
	Inputs    []string `json:"inputs"`
	// First is when two endpoints first showed the payment in the mempool, or the only one, in Unix seconds; 0 for
	// never.
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

// payments returns the outputs of a transaction that pay this rail, except final ones.
func (c *cycle) payments(ctx context.Context, d decision, held bool) (found []observe.Movement, err error) {
	for i, out := range d.tx.Outputs {
		name := outpoint{d.tx.ID, uint32(i)}
		address, ours := c.scripts[out.Script]
		if !ours {
			continue
		}
		row, recorded, err := c.row(ctx, name)
		if err != nil {
			return nil, err
		}
		if row.Final {
			continue
		}
		if !recorded && !d.tx.Status.Confirmed {
			if c.admitted++; c.unconfirmed+c.admitted > maxUnconfirmed {
				continue
			}
		}
		m := observe.Movement{Block: d.tx.Status.Height, BlockHash: d.tx.Status.Block, Held: held}
		if m.Observation, err = c.observation(ctx, d, address, name, out.Value, row); err != nil {
			return nil, err
		}
		if c.older(d.tx.Status) && !m.Own {
			m.Gone, m.Final = "older", d.tx.Status.Height <= c.next.Height
		}
		found = append(found, m)
	}
	return found, nil
}

// older reports whether a transaction is in a block from before the origin. It can have a receipt if an endpoint showed it
// in the mempool.
func (s *state) older(at status) bool { return at.Confirmed && at.Time < s.origin }

// row returns the receipt of an output, if any. Final receipts were not loaded, nor all dropped ones.
func (c *cycle) row(ctx context.Context, name outpoint) (row ledger.Receipt, recorded bool, err error) {
	if row, recorded = c.rows[name.String()]; recorded {
		return row, true, nil
	}
	row, recorded, err = c.config.Ledger.Receipt(ctx, c.config.OfferID, c.config.Rail.Account(), name.String())
	if err != nil {
		return row, false, observe.ErrNoLedger
	}
	if recorded && !row.Final {
		c.add(row)
	}
	return row, recorded, nil
}

// isFinal reports whether all receipts of a transaction are final.
func (c *cycle) isFinal(ctx context.Context, tx transaction) (final bool, err error) {
	for i, out := range tx.Outputs {
		if c.scripts[out.Script] == "" {
			continue
		}
		row, _, err := c.row(ctx, outpoint{tx.ID, uint32(i)})
		if final = row.Final; err != nil || !final {
			return false, err
		}
	}
	return final, nil
}

// observation returns what the chain shows of an output. Its state is not decided yet.
func (c *cycle) observation(ctx context.Context, d decision, address string, name outpoint, satoshis int64, row ledger.Receipt) (ledger.Observation, error) {
	before := evidenceOf(row)
	proof := evidence{Address: address, Inputs: make([]string, 0, maxInputs), First: before.First, MicroUSD: before.MicroUSD}
	for _, in := range d.tx.Inputs[:min(len(d.tx.Inputs), maxInputs)] {
		proof.Inputs = append(proof.Inputs, in.String())
	}
	s := ledger.Observation{
		Offer: c.config.OfferID, Account: c.config.Rail.Account(), Rail: c.config.Rail.Name(),
		ExternalID: name.String(), Transaction: name.Transaction, Asset: asset, Amount: satoshis, EvidenceLevel: ledger.LevelChain,
		Own: row.Own || d.own, Once: true, Testnet: c.config.Rail.Test(), OccurredAt: row.OccurredAt, Cause: "mempool",
	}
	switch at := d.tx.Status; {
	case at.Confirmed:
		proof.Block, proof.BlockHash = at.Height, at.Block
		s.OccurredAt, s.Cause = at.Time, "chain"
		if proof.MicroUSD == 0 {
			proof.MicroUSD = c.priceOf(at)
		}
		if row.ID == 0 && at.Time < c.first {
			s.Cause = ledger.CauseBackfilled
		}
	case row.ID == 0:
		s.OccurredAt = c.now.Unix()
	}
	// A payment first shown in a block has the block's time, unless the miner's clock is ahead.
	if now := c.now.Unix(); d.shown && proof.First == 0 && (proof.Block == 0 || s.OccurredAt > now) {
		proof.First = now
	}
	s.Evidence = offer.JSON(proof)
	if s.Own { // not a payment, so it needs no value
		s.State = ledger.StatusMoved
		return s, nil
	}
	counts := proof.Block > 0 && c.head-proof.Block+1 >= int64(c.config.Confirmations)
	var err error
	s.USDCents, s.ValueBasis, err = c.value(ctx, row, satoshis, proof, s.OccurredAt, counts)
	return s, err
}
