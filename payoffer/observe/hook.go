package observe

import (
	"context"
	"net/http"
)

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

// Hook takes the webhooks of one rail. The detail is a sentence for the
// provider's log, without anything of the delivery or of a secret in it.
type Hook interface {
	Receive(ctx context.Context, d Delivery) (v Verdict, detail string)
}
