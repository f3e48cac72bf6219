package x402

import (
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Status is how a payment attempt ended, or that its end is not known yet.
type Status int

const (
	// Settled: the buyer was charged; Outcome.Response says how (HTTP 200).
	Settled Status = iota + 1
	// Refused: nothing was charged and this payload will not be (402).
	Refused
	// Open: sent to settlement, outcome unknown; the same payload must be
	// sent again later, never a new one (503).
	Open
	// Unavailable: nothing was sent and nothing charged; try later (503).
	Unavailable
	// Conflict: the authorization or the payment identifier is in use by
	// another payload (409).
	Conflict
	// Malformed: the payload cannot be read (400).
	Malformed
	// Limited: too many attempts from this client (429).
	Limited
)

// Attempt is one payment as it arrived.
type Attempt struct {
	// Payload is the JSON of the PaymentPayload, already taken out of its
	// transport: a header, or MCP and A2A metadata.
	Payload []byte
	// Client is the address that the rate limit counts by; empty for none.
	Client string
}

// Outcome answers an attempt.
type Outcome struct {
	Status Status
	// Version is the dialect of the attempt: 1 or 2.
	Version int
	// Reason is a stable code for a client, Detail a sentence for a person.
	Reason, Detail string
	// Response is set when settled, and when settlement definitely failed.
	Response *SettleResponse
	// Evidence says what stands behind a settled payment: "seen" (the
	// Transfer was read on the chain) or "claimed" (the facilitator's word).
	Evidence string
	// AmountUSD is what a settled payment was worth when it was made, in cents.
	AmountUSD offer.USD
	// Intent names the open intent while the outcome is unknown.
	Intent string
	// RetryAfter is when to ask again, with Open, Unavailable and Limited.
	RetryAfter time.Duration
}
