// Package accounting has the rules of the ledger: how observations of a payment are merged
// into a receipt, and whether its money counts, for whom and how much. It does no I/O and
// has no clock.
package accounting

// Status is the state of a receipt. Only StatusConfirmed is money received.
type Status string

// The statuses.
const (
	StatusSeen      Status = "seen"      // pending: it may still fail
	StatusConfirmed Status = "confirmed" // received
	StatusDropped   Status = "dropped"   // failed: it left the chain, or never arrived
	StatusRefunded  Status = "refunded"  // refunded in full
	StatusReversed  Status = "reversed"  // disputed, or voided by the operator
	StatusMoved     Status = "moved"     // moved within the account: not a payment
	StatusSettling  Status = "settling"  // of x402 intents without a receipt: outcome unknown
	StatusClaimed   Status = "claimed"   // of x402 intents without a receipt: reported by a facilitator, not verified
)

// EvidenceLevel is the kind of proof of a receipt.
type EvidenceLevel string

// The levels of evidence.
const (
	LevelSigned   EvidenceLevel = "signed"   // a message with a verified signature
	LevelProvider EvidenceLevel = "provider" // read from the provider
	LevelChain    EvidenceLevel = "chain"    // read from the chain
	LevelManual   EvidenceLevel = "manual"   // an operator's entry
)

// trust orders the levels of evidence: a more trusted observation replaces a less trusted one.
type trust int

const (
	trustNone trust = iota
	trustManual
	trustProven // signed, or read from the provider
	trustChain
)

var trusts = map[EvidenceLevel]trust{
	LevelSigned: trustProven, LevelProvider: trustProven, LevelManual: trustManual, LevelChain: trustChain,
}

func (e EvidenceLevel) trust() trust { return trusts[e] }

// Classification decides whether money counts as received, and whose payment it is.
type Classification struct {
	Status        Status
	EvidenceLevel EvidenceLevel
	Own           bool // the payer is the operator
	Testnet       bool // the money is worth nothing
}

// Held reports whether the money arrived and stayed.
func (c Classification) Held() bool { return c.Status == StatusConfirmed }

// Word is the status in texts for people. A reversed entry is voided: no bank can dispute it.
func (c Classification) Word() string {
	if c.Status == StatusReversed && c.EvidenceLevel == LevelManual {
		return "voided"
	}
	return string(c.Status)
}

// Arrived reports whether the money arrived, also if it was refunded or disputed later.
func (c Classification) Arrived() bool {
	return c.Status == StatusConfirmed || c.Status == StatusRefunded || c.Status == StatusReversed
}

// Counts reports whether the money counts as received. Test money of a checkout never
// does, and that of a chain only if testCounts (see TestCounts).
func (c Classification) Counts(testCounts bool) bool {
	return c.Held() && (!c.Testnet || testCounts && c.EvidenceLevel == LevelChain)
}
