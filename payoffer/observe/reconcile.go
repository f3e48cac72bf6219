package observe

import (
	"bytes"
	"cmp"
	"encoding/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// causeReorg is the cause of a payment that left the chain.
const causeReorg = "reorg"

// Movement is a payment as a reading of a chain shows it.
type Movement struct {
	// Observation has what the chain shows. Reconcile sets its State, unless it is StatusMoved, and Final. Of a Gone
	// payment only ExternalID and Final are read: Final says that it can never return.
	ledger.Observation
	// Block is its height, 0 in the mempool, and BlockHash its hash in the spelling of the evidence.
	Block     int64
	BlockHash string
	// Gone is why it can no longer be mined, such as "replaced", or empty.
	Gone string
	// Held means that it could not be read, or that two sources contradict each other. Nothing changes because of it.
	Held bool
}

// Tip is how far a reading has reached.
type Tip struct {
	// Head is the newest block. Every payment in the blocks up to it was found, or is held.
	Head int64
	// Final is the newest block that can no longer be replaced.
	Final int64
	// Confirmations is the depth at which a payment counts: 1 at the head.
	Confirmations int64
	// Forgotten is the time before which payments that left the chain are no longer looked for, in Unix seconds.
	Forgotten int64
}

// Reconcile returns the changes of an account's receipts. rows are those that are not final, and found are the payments
// that the reading shows. A payment can be new, deeper, in another block, gone, or final. One without a block is gone
// only if Gone says so, because every mempool differs.
func Reconcile(rows []ledger.Receipt, found []Movement, tip Tip) []ledger.Observation {
	shown, rank := make(map[string]Movement, len(found)), map[bool]int{true: 1}
	for _, m := range found {
		// A payment can move during the reading.
		other, again := shown[m.ExternalID]
		if !again || cmp.Or(cmp.Compare(rank[m.Held], rank[other.Held]),
			cmp.Compare(m.Block, other.Block), cmp.Compare(m.BlockHash, other.BlockHash)) > 0 {
			shown[m.ExternalID] = m
		}
	}
	var changes []ledger.Observation
	for _, row := range rows {
		m, is := shown[row.ExternalID]
		delete(shown, row.ExternalID)
		var change *ledger.Observation
		if is && m.Gone == "" {
			change = m.follow(row, tip)
		} else {
			change = m.drop(row, tip)
		}
		if change != nil && !unchanged(row, *change) {
			changes = append(changes, *change)
		}
	}
	for _, m := range found {
		if m, is := shown[m.ExternalID]; is && m.Gone == "" {
			delete(shown, m.ExternalID)
			changes = append(changes, m.at(tip, false))
		}
	}
	return changes
}

// follow returns the state of a known payment, or nil to keep it.
func (m Movement) follow(row ledger.Receipt, tip Tip) *ledger.Observation {
	if m.Held && (row.State != ledger.StatusDropped || m.Asset == "") {
		return nil
	}
	// A head that moves back a little does not change a confirmed payment.
	_, hash := Place(row)
	change := m.at(tip, row.State == ledger.StatusConfirmed && m.Block > 0 && hash == m.BlockHash)
	return &change
}

// at returns the observation at a tip. stays means that it was confirmed in the same block.
func (m Movement) at(tip Tip, stays bool) ledger.Observation {
	o, mined := m.Observation, m.Block > 0 && m.Block <= tip.Head && !m.Held
	counts := stays || mined && tip.Head-m.Block+1 >= tip.Confirmations
	if o.State != ledger.StatusMoved {
		o.State = ledger.StatusSeen
		if counts {
			o.State = ledger.StatusConfirmed
		}
	}
	o.Final = counts && mined && m.Block <= tip.Final
	return o
}

// drop returns the state of a known payment that is not shown, or nil to keep it.
func (m Movement) drop(row ledger.Receipt, tip Tip) *ledger.Observation {
	block, _ := Place(row)
	cause := m.Gone
	if cause == "" {
		if block == 0 && row.State != ledger.StatusDropped || block > tip.Head {
			return nil
		}
		cause = causeReorg
	}
	o := Restated(row, ledger.StatusDropped, cause)
	o.Final = m.Final || row.OccurredAt < tip.Forgotten
	return o
}

// Place returns the block of a receipt on a chain, 0 for none, and its hash.
func Place(row ledger.Receipt) (block int64, hash string) {
	var e struct {
		Block     int64  `json:"block"`
		BlockHash string `json:"blockHash"`
	}
	_ = json.Unmarshal(row.Evidence, &e) // other evidence has no block
	return e.Block, e.BlockHash
}

func unchanged(row ledger.Receipt, o ledger.Observation) bool {
	if o.USDCents == nil && o.State == ledger.StatusSeen && row.USDCents != nil && row.ValueBasis != ledger.BasisStated {
		return false // what is not counted yet has lost its value
	}
	return row.State == o.State && row.Final == o.Final && row.Amount == o.Amount && row.Payer == o.Payer &&
		(o.Nonce == "" || row.Nonce == o.Nonce) && (row.Own || !o.Own) && (row.USDCents != nil || o.USDCents == nil) &&
		bytes.Equal(row.Evidence, o.Evidence)
}
