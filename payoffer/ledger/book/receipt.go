package book

import (
	"encoding/json"
	"reflect"
)

// Receipt is one money movement: what all sightings of it amount to.
type Receipt struct {
	// ID grows with the order in which receipts were first recorded.
	ID int64
	// Offer, Account, Rail, ExternalID, Transaction, Via, Asset, Amount,
	// USDCents, Final, EvidenceLevel, Evidence, Payer, Own, Testnet, OccurredAt
	// and Revision are as in Sighting.
	Offer, Account, Rail    string
	ExternalID, Transaction string
	Via, Asset              string
	Amount                  int64
	USDCents                *int64
	Final                   bool
	EvidenceLevel           EvidenceLevel
	Evidence                json.RawMessage
	Payer                   string
	Own, Testnet            bool
	OccurredAt              int64
	Revision                int64
	// State is the payment's own, its returns left aside: StatusSeen,
	// StatusConfirmed or StatusDropped.
	State Status
	// Status is derived from all sightings.
	Status Status
	// Refunded is what went back, in atomic units: at most Amount once that
	// is known. RefundedCents is its value in US cents, 0 while unknown.
	Refunded, RefundedCents int64
	// Version counts the transitions. A change of the status, the amount, its
	// value, the refund or the revision is one.
	Version int64
	// ObservedAt is when it was first recorded and UpdatedAt when it last
	// changed, in Unix seconds.
	ObservedAt, UpdatedAt int64
	// IntentID is the x402 intent that the movement settled, or nil.
	IntentID *int64
}

// Moved reports whether the change from old to r is a transition.
func (r *Receipt) Moved(old Receipt) bool {
	return r.Status != old.Status || r.Amount != old.Amount || r.Refunded != old.Refunded ||
		r.Revision != old.Revision || !reflect.DeepEqual(r.USDCents, old.USDCents)
}

// Total is what stands in the sums of the receipt; none while it is not known.
func (r Receipt) Total() Total {
	if r.Version == 0 {
		return Total{}
	}
	place := Place{r.Offer, r.Account, r.Rail, Standing{r.Status, r.EvidenceLevel, r.Own, r.Testnet}}
	s := NewSum(r.Amount, r.USDCents)
	s.Refunded, s.RefundedCents = min(r.Refunded, r.Amount), r.RefundedCents
	return Total{place, s}
}
