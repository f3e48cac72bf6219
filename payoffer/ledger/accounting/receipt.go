package accounting

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strings"
)

// ValueBasis says how the value in US dollars was fixed.
type ValueBasis string

// The bases of values; empty where nothing says it.
const (
	// BasisFace: the money is dollars, or stands for them one to one.
	BasisFace ValueBasis = "face"
	// BasisQuote: the amount that was asked for these dollars.
	BasisQuote ValueBasis = "quote"
	// BasisRate: the market's price at the time of the payment.
	BasisRate ValueBasis = "rate"
	// BasisStated: the operator says so, while no source does.
	BasisStated ValueBasis = "stated"
)

// StatedValue is what the operator says that a payment is worth.
type StatedValue struct {
	// USDCents is the value in US cents, and At when it was stated, in Unix
	// seconds: the latest holds, and the higher of the same second.
	USDCents, At int64
}

// after reports whether v holds instead of other; either may be nil.
func (v *StatedValue) after(other *StatedValue) bool {
	return v != nil && (other == nil || cmp.Or(cmp.Compare(v.At, other.At), cmp.Compare(v.USDCents, other.USDCents)) > 0)
}

// Receipt is one money movement: what all sightings of it amount to.
type Receipt struct {
	// ID grows with the order in which receipts were first recorded.
	ID int64
	// Offer, Account, Rail, ExternalID, Transaction, Via, Asset, Amount,
	// USDCents, ValueBasis, Final, EvidenceLevel, Evidence, Payer, Nonce, Own, Testnet,
	// OccurredAt and Revision are as in Sighting.
	Offer, Account, Rail    string
	ExternalID, Transaction string
	Via, Asset              string
	Amount                  int64
	USDCents                *int64
	ValueBasis              ValueBasis
	Final                   bool
	EvidenceLevel           EvidenceLevel
	Evidence                json.RawMessage
	Payer, Nonce            string
	Own, Testnet            bool
	OccurredAt              int64
	Revision                int64
	// Stated is what the operator says that it is worth. It stands in USDCents
	// while no source knows the value.
	Stated *StatedValue
	// State is the payment's own, its returns left aside: StatusSeen,
	// StatusConfirmed, StatusDropped or StatusMoved.
	State Status
	// Status is derived from all sightings.
	Status Status
	// Refunded is what went back, by refunds and by disputes of a part, in
	// atomic units: at most Amount once that is known. RefundedCents is its value in US cents, 0 while unknown.
	Refunded, RefundedCents int64
	// Version counts the transitions. A change of the status, the amount, its
	// value, the refund, the revision, the evidence level, or of whose money it
	// is, is one.
	Version int64
	// ObservedAt is when it was first recorded and UpdatedAt when it last
	// changed, in Unix seconds.
	ObservedAt, UpdatedAt int64
	// IntentID is the x402 intent that the movement settled, or nil.
	IntentID *int64
}

// Moved reports whether the change from old to r is a transition.
func (r *Receipt) Moved(old Receipt) bool {
	return r.Status != old.Status || r.Asset != old.Asset || r.Amount != old.Amount || r.Refunded != old.Refunded ||
		r.Revision != old.Revision || r.EvidenceLevel != old.EvidenceLevel || r.Own != old.Own || r.Testnet != old.Testnet ||
		!reflect.DeepEqual(r.USDCents, old.USDCents)
}

// Total is what stands in the sums of the receipt; none while it is not known.
func (r Receipt) Total() Total {
	if r.Version == 0 {
		return Total{}
	}
	place := Place{r.Offer, r.Account, r.Rail, r.currency(), Standing{r.Status, r.EvidenceLevel, r.Own, r.Testnet}}
	s := NewSum(r.Amount, r.USDCents)
	s.Refunded, s.RefundedCents = min(r.Refunded, r.Amount), r.RefundedCents
	return Total{place, s}
}

// currency is that of the money where it is another than the account's own. A
// chain's account has one asset; all others are kept in dollars.
func (r Receipt) currency() string {
	if r.EvidenceLevel == LevelChain || r.Asset == "USD" {
		return ""
	}
	return r.Asset
}

// Merge adds a sighting to what is known of a payment and of its returns; a
// Receipt of version 0 is not known yet. For everything but chains it is
// commutative, associative and idempotent, so that webhooks may arrive in any
// order and number. A chain may change its mind: there the latest sighting
// holds until one is final.
func Merge(old Receipt, known Words, s Sighting) (Receipt, Words) {
	told := known.join(s)
	if s.Addendum && old.Version == 0 {
		return old, told
	}
	next := old
	if next.ValueBasis == BasisStated {
		next.USDCents, next.ValueBasis = nil, "" // until derive states it again
	}
	if !s.Addendum {
		next.add(s)
	}
	if s.Stated.after(next.Stated) {
		next.Stated = s.Stated
	}
	next.derive(told)
	return next, told
}

// add merges what the sighting says of the payment itself.
func (r *Receipt) add(s Sighting) {
	if r.Version == 0 {
		r.Offer, r.Account, r.Rail, r.ExternalID = s.Offer, s.Account, s.Rail, s.ExternalID
	}
	r.Via = max(r.Via, s.Via)
	r.Own = r.Own || s.Own
	r.Testnet = r.Testnet || s.Testnet
	if s.Nonce != "" && (r.Nonce == "" || !r.Final) {
		r.Nonce = s.Nonce
	}

	known, told := r.EvidenceLevel.trust(), s.EvidenceLevel.trust()
	switch cmp.Or(cmp.Compare(told, known), cmp.Compare(s.Revision, r.Revision)) {
	case 1:
		r.replace(s)
	case 0:
		if told == trustChain {
			r.follow(s)
		} else {
			r.join(s)
		}
	}
}

// replace takes over what the sighting says of the payment itself.
func (r *Receipt) replace(s Sighting) {
	r.State, r.Final = s.State, s.Final
	r.EvidenceLevel, r.Evidence = s.EvidenceLevel, s.Evidence
	r.Transaction, r.Asset, r.Amount = s.Transaction, s.Asset, s.Amount
	r.USDCents, r.ValueBasis = s.USDCents, s.ValueBasis
	r.Payer, r.OccurredAt, r.Revision = s.Payer, s.OccurredAt, s.Revision
}

// follow is a chain's next word. The first value in US cents that a confirmed amount
// has stays, and one that becomes known is added even to a final row. What is not
// confirmed is worth what was said last.
func (r *Receipt) follow(s Sighting) {
	value, basis, same := r.USDCents, r.ValueBasis, r.Asset == s.Asset && r.Amount == s.Amount
	fixed := same && value != nil && r.State == StatusConfirmed
	switch {
	case !r.Final:
		r.replace(s)
	case same && value == nil:
		r.USDCents, r.ValueBasis = s.USDCents, s.ValueBasis
	}
	if fixed {
		r.USDCents, r.ValueBasis = value, basis
	}
}

// The order of what else is equal: what was paid stays paid, whatever arrives
// late.
var (
	stateRank = map[Status]int{StatusDropped: 1, StatusConfirmed: 2}
	levelRank = map[EvidenceLevel]int{LevelProvider: 1}
)

// join is the least upper bound of what two sources of equal trust say.
func (r *Receipt) join(s Sighting) {
	if cmp.Or(
		cmp.Compare(stateRank[s.State], stateRank[r.State]),
		cmp.Compare(levelRank[s.EvidenceLevel], levelRank[r.EvidenceLevel]),
		strings.Compare(string(s.Evidence), string(r.Evidence)),
	) > 0 {
		r.State, r.EvidenceLevel, r.Evidence = s.State, s.EvidenceLevel, s.Evidence
	}
	r.Final = r.Final || s.Final
	r.Transaction = max(r.Transaction, s.Transaction)
	r.Asset = max(r.Asset, s.Asset)
	r.Amount = max(r.Amount, s.Amount)
	if r.USDCents == nil || s.USDCents != nil && *s.USDCents > *r.USDCents {
		r.USDCents, r.ValueBasis = s.USDCents, s.ValueBasis
	} else if s.USDCents != nil && *s.USDCents == *r.USDCents {
		r.ValueBasis = max(r.ValueBasis, s.ValueBasis)
	}
	r.Payer = max(r.Payer, s.Payer)
	r.OccurredAt = max(r.OccurredAt, s.OccurredAt)
}

// derive computes the refund, its value and the status from the facts.
func (r *Receipt) derive(told Words) {
	if r.USDCents == nil && r.Stated != nil {
		r.USDCents, r.ValueBasis = &r.Stated.USDCents, BasisStated
	}
	if at := told.captured(); at > 0 && r.Revision == 0 {
		if r.OccurredAt = max(r.OccurredAt, at); r.State == StatusSeen {
			r.State = StatusConfirmed
		}
	}
	refunded, disputed := told.total(r.Asset)
	if r.Amount > 0 {
		refunded = min(refunded, r.Amount)
	}
	reversed := disputed > 0 && saturatingAdd(refunded, disputed) >= r.Amount
	if r.Refunded = refunded; !reversed {
		r.Refunded += disputed
	}
	switch {
	case r.State == StatusDropped || r.State == StatusMoved:
		r.Status = r.State
	case reversed:
		r.Status = StatusReversed
	case r.Refunded > 0 && r.Refunded >= r.Amount && r.Amount > 0:
		r.Status = StatusRefunded
	default:
		r.Status = r.State
	}
	r.RefundedCents = 0
	if r.USDCents != nil {
		r.RefundedCents = share(*r.USDCents, min(r.Refunded, r.Amount), r.Amount)
	}
}
