// Package accounting holds the rules of the books: what sightings of a payment
// amount to, and whether money counts, for whom and how much. It does no I/O,
// knows no clock, and does not say where anything is kept.
package accounting

// Status is what a receipt amounts to. Only StatusConfirmed is money held.
type Status string

// The statuses.
const (
	// StatusSeen is announced by the truth source and not sure yet.
	StatusSeen Status = "seen"
	// StatusConfirmed is money received.
	StatusConfirmed Status = "confirmed"
	// StatusDropped never became money: it left the chain or failed.
	StatusDropped Status = "dropped"
	// StatusRefunded went back to the payer in full.
	StatusRefunded Status = "refunded"
	// StatusReversed was taken back, by a dispute or by the operator's entry.
	StatusReversed Status = "reversed"
	// StatusMoved is the account's own money, moved within the account: nobody
	// paid it, and it was never received.
	StatusMoved Status = "moved"
	// StatusSettling and StatusClaimed are sums of x402 intents that have no
	// receipt: of unknown outcome, and settled by a facilitator's word alone.
	StatusSettling Status = "settling"
	StatusClaimed  Status = "claimed"
)

// EvidenceLevel says what a receipt rests on.
type EvidenceLevel string

// The levels of evidence.
const (
	// LevelSigned is a message with a verified signature.
	LevelSigned EvidenceLevel = "signed"
	// LevelProvider was read from the provider.
	LevelProvider EvidenceLevel = "provider"
	// LevelChain was read from the chain.
	LevelChain EvidenceLevel = "chain"
	// LevelManual is an operator's entry.
	LevelManual EvidenceLevel = "manual"
)

// trust orders the levels of evidence: a sighting is not moved by a less
// trusted one and replaced by a more trusted one.
type trust int

const (
	trustNone   trust = iota
	trustManual       // entered by the operator, who gives way to what proves it
	trustProven       // signed, or read from the provider
	trustChain        // the chain itself
)

var trusts = map[EvidenceLevel]trust{
	LevelSigned: trustProven, LevelProvider: trustProven, LevelManual: trustManual, LevelChain: trustChain,
}

func (e EvidenceLevel) trust() trust { return trusts[e] }

// Standing is what decides whether money counts, and for whom.
type Standing struct {
	Status        Status
	EvidenceLevel EvidenceLevel
	// Own says that the payer is the operator, Testnet that the money is worth
	// nothing.
	Own, Testnet bool
}

// Held reports whether the money arrived, whatever it is worth.
func (s Standing) Held() bool { return s.Status == StatusConfirmed }

// Arrived reports whether the money arrived, also if it went back since.
func (s Standing) Arrived() bool {
	return s.Status == StatusConfirmed || s.Status == StatusRefunded || s.Status == StatusReversed
}

// Seen reports whether the money is not sure yet.
func (s Standing) Seen() bool { return s.Status == StatusSeen }

// Counts reports whether the money is received. Of test money only a chain's
// ever is, never that of a checkout in test mode, and only where testCounts,
// which TestCounts says.
func (s Standing) Counts(testCounts bool) bool {
	return s.Held() && (!s.Testnet || testCounts && s.EvidenceLevel == LevelChain)
}
