// Package observe has the parts that observers of payments share. Each package below it reads one kind of
// source and records receipts: chains, webhooks and operators' entries.
package observe

import (
	"context"
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

// Error codes of a rail's health, never the text of an upstream.
const (
	ErrUnreachable = source.Unreachable
	ErrWrongChain  = "wrong_chain"
	ErrBadAnswer   = source.BadAnswer
	ErrLagging     = "lagging"
	ErrLedger      = "ledger_unavailable"
	// ErrDisagree: two sources contradict each other.
	ErrDisagree = "sources_disagree"
	// ErrUnauthorized: the provider rejects the key or token.
	ErrUnauthorized = source.Unauthorized
	// ErrLimited: the provider asks for fewer calls.
	ErrLimited = source.Limited
	// ErrUnverified: the last deliveries are not signed with the configured secret.
	ErrUnverified = "unverified"
	// ErrClock: the last deliveries are genuine, but this machine's clock differs from their time.
	ErrClock = "clock_wrong"
	// ErrMalformed: a genuine delivery could not be read.
	ErrMalformed = "malformed"
	// ErrHistory: a final block has changed; the rail has stopped.
	ErrHistory = "final_history_changed"
)

// Error is a failure of a source.
type Error = source.Error

// Health says how well one rail is observed.
type Health = source.Health

// MaxDelivery bounds the body of an inbound webhook, in bytes.
const MaxDelivery = 256 << 10

// Delivery is an inbound webhook as it arrived.
type Delivery struct {
	Header http.Header
	// Secret is the last segment of a path that ends in a secret, or empty.
	Secret string
	Body   []byte
}

// Verdict is the outcome of a delivery.
type Verdict string

// The verdicts. A provider repeats only Unavailable and Limited deliveries.
const (
	// Recorded deliveries are committed to the ledger.
	Recorded Verdict = "recorded"
	// Ignored deliveries are genuine, but not about a payment of this offer.
	Ignored Verdict = "ignored"
	// Unverified deliveries may be forged.
	Unverified Verdict = "unverified"
	// Malformed deliveries cannot be read.
	Malformed Verdict = "malformed"
	// Unavailable deliveries could not be stored.
	Unavailable Verdict = "unavailable"
	// Limited deliveries were not read, because too many arrive at once. Strangers can cause it.
	Limited Verdict = "limited"
)

// Hook receives the webhooks of one rail. A detail is a sentence for the provider's log. It
// repeats nothing of the delivery or of a secret.
type Hook interface {
	// Admit checks the secret of the path, or that there is a signature, before the body is
	// read. A delivery that is not admitted is Unverified.
	Admit(header http.Header, secret string) (detail string, admitted bool)
	// Receive verifies and records a delivery, whether it was admitted or not.
	Receive(ctx context.Context, d Delivery) (v Verdict, detail string)
}
