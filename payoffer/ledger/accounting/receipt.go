package accounting

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strings"
)

// ValueBasis says how the value in US dollars was fixed.
type ValueBasis string

// The bases of values; empty if unknown.
const (
	BasisFace   ValueBasis = "face"   // the money is dollars, or a stablecoin
	BasisQuote  ValueBasis = "quote"  // the amount was quoted for these dollars
	BasisRate   ValueBasis = "rate"   // the market price at the time of the payment
	BasisStated ValueBasis = "stated" // the operator stated it, because no source does
)

// StatedValue is the value that the operator states, in US cents, and when, in Unix
// seconds. The latest one counts; of two in the same second, the higher one.
type StatedValue struct{ USDCents, At int64 }

// after reports whether v replaces other; either may be nil.
func (s *StatedValue) after(other *StatedValue) bool {
	return s != nil && (other == nil || cmp.Or(cmp.Compare(s.At, other.At), cmp.Compare(s.USDCents, other.USDCents)) > 0)
}

// Receipt is one money movement: the merge of all observations of it.
type Receipt struct {
	// ID grows in the order in which receipts were first recorded.
	ID int64

	// These are as in Observation.
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

	Stated *StatedValue // the value in USDCents while no source knows it
	State  Status       // without the returns: StatusSeen, StatusConfirmed, StatusDropped or StatusMoved
	Status Status       // derived from State and the returns
	// Refunded is the sum of refunds and partial disputes in atomic units, at most Amount
	// once that is known. RefundedCents is its value in US cents, or 0 while unknown.
	Refunded, RefundedCents int64
	Version                 int64  // the number of transitions (see Moved)
	ObservedAt, UpdatedAt   int64  // when it was first recorded and last changed, in Unix seconds
	IntentID                *int64 // the x402 intent that the movement settled, or nil
}

// Moved reports whether the change from old to r is a transition.
func (r *Receipt) Moved(old Receipt) bool {
	return r.Status != old.Status || r.Asset != old.Asset || r.Amount != old.Amount || r.Refunded != old.Refunded ||
		r.Revision != old.Revision || r.EvidenceLevel != old.EvidenceLevel || r.Own != old.Own || r.Testnet != old.Testnet ||
		!reflect.DeepEqual(r.USDCents, old.USDCents)
}

// Total returns the receipt's part of the sums.
func (r Receipt) Total() Total {
	if r.Version == 0 {
		return Total{}
	}
	place := BalanceKey{r.Offer, r.Account, r.Rail, r.currency(), Classification{r.Status, r.EvidenceLevel, r.Own, r.Testnet}}
	s := NewSum(r.Amount, r.USDCents)
	s.Refunded, s.RefundedCents = min(r.Refunded, r.Amount), r.RefundedCents
	return Total{place, s}
}

// currency returns the currency if it is not that of the account: a chain's account has
// one asset, and all others have dollars.
func (r Receipt) currency() string {
	if r.EvidenceLevel == LevelChain || r.Asset == "USD" {
		return ""
	}
	return r.Asset
}

// Merge adds an observation to a receipt and to its returns. A receipt of version 0 is new.
// Except for chains, Merge is commutative, associative and idempotent, because webhooks can
// arrive in any order and more than once. The latest observation of a chain replaces earlier
// ones until one is final.
func Merge(old Receipt, stored ReturnRecords, s Observation) (Receipt, ReturnRecords) {
	latest := stored.join(s)
	if s.Addendum && old.Version == 0 {
		return old, latest
	}
	next := old
	if next.ValueBasis == BasisStated {
		next.USDCents, next.ValueBasis = nil, "" // derive sets it again
	}
	if !s.Addendum {
		next.add(s)
	}
	next.Own = next.Own || s.Own
	if s.Stated.after(next.Stated) {
		next.Stated = s.Stated
	}
	next.derive(latest)
	return next, latest
}

// add merges the payment of an observation, without its returns.
func (r *Receipt) add(s Observation) {
	if r.Version == 0 {
		r.Offer, r.Account, r.Rail, r.ExternalID = s.Offer, s.Account, s.Rail, s.ExternalID
	}
	r.Via = max(r.Via, s.Via)
	r.Testnet = r.Testnet || s.Testnet
	if s.Nonce != "" && (r.Nonce == "" || !r.Final) {
		r.Nonce = s.Nonce
	}

	before, observed := r.EvidenceLevel.trust(), s.EvidenceLevel.trust()
	switch cmp.Or(cmp.Compare(observed, before), cmp.Compare(s.Revision, r.Revision)) {
	case 1:
		r.replace(s)
	case 0:
		if observed == trustChain {
			r.follow(s)
		} else {
			r.join(s)
		}
	}
}

func (r *Receipt) replace(s Observation) {
	r.State, r.Final = s.State, s.Final
	r.EvidenceLevel, r.Evidence = s.EvidenceLevel, s.Evidence
	r.Transaction, r.Asset, r.Amount = s.Transaction, s.Asset, s.Amount
	r.USDCents, r.ValueBasis = s.USDCents, s.ValueBasis
	r.Payer, r.OccurredAt, r.Revision = s.Payer, s.OccurredAt, s.Revision
}

// follow merges the next observation of a chain. The first known value of a confirmed amount
// stays, and one that becomes known later is added even to a final receipt.
func (r *Receipt) follow(s Observation) {
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

// The order of otherwise equal observations: a paid payment stays paid.
var (
	stateRank = map[Status]int{StatusDropped: 1, StatusConfirmed: 2}
	levelRank = map[EvidenceLevel]int{LevelProvider: 1}
)

// join merges an observation of equal trust. The result is the same in any order.
func (r *Receipt) join(s Observation) {
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

// derive computes the refund, its value and the status.
func (r *Receipt) derive(returns ReturnRecords) {
	if r.USDCents == nil && r.Stated != nil {
		r.USDCents, r.ValueBasis = &r.Stated.USDCents, BasisStated
	}
	if at := returns.captured(); at > 0 && r.Revision == 0 {
		if r.OccurredAt = max(r.OccurredAt, at); r.State == StatusSeen {
			r.State = StatusConfirmed
		}
	}
	refunded, disputed := returns.total(r.Asset)
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
		r.RefundedCents = proportion(*r.USDCents, min(r.Refunded, r.Amount), r.Amount)
	}
}

// Name identifies the payment in its account. It stays the same from the first answer to an
// authorization on, and after a reorganization gave the payment another transaction.
func (r Receipt) Name() string {
	if r.Nonce != "" {
		return AuthorizationName(r.Payer, r.Nonce)
	}
	return byReference + r.ExternalID
}

// AuthorizationName is the Name of the payment by an authorization.
func AuthorizationName(payer, nonce string) string {
	return byAuthorization + strings.ToLower(payer) + "/" + strings.ToLower(nonce)
}

// ParseName returns the external id, or else payer and nonce, of which a Name is made.
func ParseName(name string) (externalID, payer, nonce string) {
	if externalID, found := strings.CutPrefix(name, byReference); found {
		return externalID, "", ""
	}
	payer, nonce, _ = strings.Cut(strings.TrimPrefix(name, byAuthorization), "/")
	return "", payer, nonce
}

// Names begin with their kind.
const byAuthorization, byReference = "a/", "r/"
