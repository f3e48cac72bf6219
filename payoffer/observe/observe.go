// Package observe says how well truth sources are read. The packages below it
// turn one kind of source each into receipts: chains, webhooks and operators'
// entries.
package observe

import (
	"context"
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

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
	// ErrUnverified: deliveries come that are not signed with the configured
	// secret, and none since that is.
	ErrUnverified = "unverified"
	// ErrMalformed: a genuine delivery could not be read.
	ErrMalformed = "malformed"
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

// MaxDelivery bounds the body of an inbound webhook, in bytes.
const MaxDelivery = 256 << 10

// Delivery is an inbound webhook as it arrived.
type Delivery struct {
	Header http.Header
	// Secret is the last segment of a path that ends in a secret, or empty.
	Secret string
	Body   []byte
}

// Verdict is what became of a delivery.
type Verdict string

// The verdicts. A provider is to repeat only what was Unavailable.
const (
	// Recorded has been committed to the ledger.
	Recorded Verdict = "recorded"
	// Ignored is genuine and none of this offer's money.
	Ignored Verdict = "ignored"
	// Unverified does not come from the provider.
	Unverified Verdict = "unverified"
	// Malformed cannot be read.
	Malformed Verdict = "malformed"
	// Unavailable could not be committed: nothing was stored.
	Unavailable Verdict = "unavailable"
)

// Hook takes the webhooks of one rail. A detail is a sentence for the
// provider's log, without anything of the delivery or of a secret in it.
type Hook interface {
	// Admit tells, before the body is read, whether the delivery shows what the
	// provider's always do: the secret of the path, or that it is signed. One that
	// is not admitted is Unverified.
	Admit(header http.Header, secret string) (detail string, admitted bool)
	// Receive takes a delivery, and judges it whether it was admitted or not.
	Receive(ctx context.Context, d Delivery) (v Verdict, detail string)
}
