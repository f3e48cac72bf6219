// Package observe turns truth sources into receipts: chains, webhooks and
// operators' entries.
package observe

// Error codes of a rail's health: a fixed list, never an upstream's text.
const (
	ErrUnreachable = "unreachable"
	ErrWrongChain  = "wrong_chain"
	ErrBadAnswer   = "bad_answer"
	ErrLagging     = "lagging"
	ErrLedger      = "ledger_unavailable"
)

// Health says how well one rail is observed.
type Health struct {
	// Rail is the rail's name.
	Rail string
	// Source is where its receipts come from: "chain", "facilitator"
	// (claims only), "webhook", "operator".
	Source string
	// Blind says that money may have arrived unseen: the rail's sums are
	// unknown, not zero.
	Blind bool
	// Partial says that only part of the rail's money is observed: the sums
	// are a lower bound.
	Partial bool
	// ObservedThrough is the last position seen, as in "block 123"; At is
	// when that was, in Unix seconds; 0 for never.
	ObservedThrough string
	At              int64
	// LastError is one of the error codes, or empty.
	LastError string
}
