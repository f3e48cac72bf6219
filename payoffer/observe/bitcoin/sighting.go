package bitcoin

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// asset names the unit of every amount, the satoshi.
const asset = "BTC"

// maxInputs is how many inputs the evidence names: one that is spent elsewhere
// is enough to know that the payment is void.
const maxInputs = 8

// evidence is where a payment stood when it was read last: the block, which is
// left out in the mempool, and the outputs that the transaction spends.
type evidence struct {
	Address   string   `json:"address"`
	Block     int64    `json:"block,omitempty"`
	BlockHash string   `json:"blockHash,omitempty"`
	Inputs    []string `json:"inputs"`
	// First is when enough hosts showed the payment in the mempool first, or the one that
	// it takes the place of, in Unix seconds; 0 where they never did.
	First int64 `json:"first,omitempty"`
	// MicroUSD is the price of one bitcoin, in millionths of a US dollar, when the payment
	// was found in a block that was not older than priceWindow; 0 if there was none. Before
	// the block the payer can withdraw the payment as the price moves.
	MicroUSD int64 `json:"microUSD,omitempty"`
}

// evidenceOf reads the evidence of a receipt; other evidence than ours says
// nothing.
func evidenceOf(row ledger.Receipt) (e evidence) {
	if json.Unmarshal(row.Evidence, &e) != nil || e.Block < 0 || e.Block > maxHeight {
		return evidence{}
	}
	return e
}

// sight takes the outputs of a transaction that pay this rail into the
// reading, but for what crowds the mempool.
func (o *Observer) sight(ctx context.Context, r *reading, tx transaction) error {
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
		if !recorded && !tx.Status.Confirmed && !r.crowd(r.decided[tx.ID]) {
			continue
		}
		s, err := o.sighting(ctx, r, tx, w, name, paid, row)
		if err != nil {
			return err
		}
		r.sightings[name.String()] = s
	}
	return nil
}

// older reports whether a transaction stands in a block from before the account was
// first watched. It may have a receipt: an endpoint that forgot the block, or lies,
// has shown it in the mempool since. A payment from after that which a
// reorganization puts as low as that stands in a younger block.
func (r *reading) older(s status) bool {
	return s.Confirmed && s.Height <= r.origin && s.Time < r.account.Since
}

// row is the receipt of an output, if there is one. Those that are final stand in
// final blocks only, and were not recalled; nor were all that are dropped.
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

// sighting is what a transaction says of one of its outputs.
func (o *Observer) sighting(ctx context.Context, r *reading, tx transaction, w watched, name outpoint, paid part, row ledger.Receipt) (ledger.Sighting, error) {
	depth := r.depths[tx.ID]
	before := evidenceOf(row)
	proof := evidence{Address: w.address, Inputs: make([]string, 0, maxInputs), First: before.First, MicroUSD: before.MicroUSD}
	for _, in := range tx.Inputs[:min(len(tx.Inputs), maxInputs)] {
		proof.Inputs = append(proof.Inputs, in.String())
	}
	s := ledger.Sighting{
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
	if r.decided[tx.ID] && proof.First == 0 {
		proof.First = r.first(tx, paid.total)
		// Of what is first shown in a block, that has the time, but by a clock ahead of ours.
		if now := o.config.Now().Unix(); proof.First == 0 && (depth == 0 || s.OccurredAt > now) {
			proof.First = now
		}
	}
	s.Evidence = observe.Evidence(proof)
	if s.Own { // it is nobody's payment, and its value nobody's concern
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
		return ledger.Sighting{}, err
	}
	if counts {
		s.State, s.Final = ledger.StatusConfirmed, depth >= o.final()
	}
	return s, nil
}

// paid is the payment of a transaction to this rail, before its first output.
func (o *Observer) paid(tx transaction) (p part) {
	for _, out := range tx.Outputs {
		if _, ours := o.scripts[out.Script]; ours {
			p.total += out.Value
		}
	}
	return p
}

// placeholder is a payment of so many satoshis that another one may take the place
// of: one that pays no more, and spends all the inputs that are known of it. A smaller
// one does not hold the time for a larger one, nor one for several.
type placeholder struct {
	inputs          []string
	first, satoshis int64
}

// remember notes what a receipt's transaction spends and pays, and when it was seen
// first.
func (k *recalled) remember(row ledger.Receipt, proof evidence) {
	if row.Own || proof.First == 0 || len(proof.Inputs) == 0 {
		return // nobody's payment, or one that nobody is sure of
	}
	of := k.places[proof.Inputs[0]]
	if of == nil {
		of = make(map[string]placeholder)
		k.places[proof.Inputs[0]] = of
	}
	of[row.Transaction] = placeholder{proof.Inputs, proof.First, of[row.Transaction].satoshis + row.Amount}
}

// first is when the payment was seen first whose place a transaction takes that pays
// so many satoshis; 0 when it takes none.
func (k *recalled) first(tx transaction, satoshis int64) (at int64) {
	spent := make(map[string]bool, len(tx.Inputs))
	for _, in := range tx.Inputs {
		spent[in.String()] = true
	}
	for in := range spent {
		for _, p := range k.places[in] {
			all := !slices.ContainsFunc(p.inputs, func(in string) bool { return !spent[in] })
			if all && satoshis <= p.satoshis && (at == 0 || p.first < at) {
				at = p.first
			}
		}
	}
	return at
}
