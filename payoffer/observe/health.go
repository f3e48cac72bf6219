// Package observe says how well truth sources are read. The packages below it
// turn one kind of source each into receipts: chains, webhooks and operators'
// entries.
package observe

import "github.com/payoffer/caddy-pay-offer/payoffer/observe/source"

// Error codes of a rail's health: a fixed list, never an upstream's text.
const (
	ErrUnreachable = source.Unreachable
	ErrWrongChain  = "wrong_chain"
	ErrBadAnswer   = source.BadAnswer
	ErrLagging     = "lagging"
	ErrLedger      = "ledger_unavailable"
	// ErrDisagree: two sources tell different things.
	ErrDisagree = "sources_disagree"
	// ErrUnauthorized: the provider refuses the key or token.
	ErrUnauthorized = source.Unauthorized
	// ErrLimited: the provider asks for fewer calls.
	ErrLimited = source.Limited
	// ErrHistory: what was final has changed; the rail has stopped.
	ErrHistory = "final_history_changed"
)

// Error is a failure of a truth source.
type Error = source.Error

// Health says how well one rail is observed.
type Health struct {
	// Rail is the rail's name.
	Rail string
	// Source is where its receipts come from: "chain", "facilitator" (claims
	// only), "webhook", "provider" (read back from the provider beside the
	// webhook), "operator" (entries by hand).
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
