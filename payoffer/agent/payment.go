package agent

import (
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// attempted is what became of a payment, as a program reads it. A definite no,
// and nothing else, is answered by a demand instead, for a client answers a
// demand by signing again.
type attempted struct {
	common
	Status            string `json:"status" jsonschema:"Of a payment: seen on the chain, claimed by the facilitator, open (not known yet), unavailable, limited or conflict"`
	Reason            string `json:"reason,omitempty" jsonschema:"Code of the status"`
	Detail            string `json:"detail" jsonschema:"What became of the payment and what to do next"`
	Intent            string `json:"intent,omitempty" jsonschema:"Names a payment whose outcome is not known yet"`
	RetryAfterSeconds int64  `json:"retryAfterSeconds,omitempty" jsonschema:"When to send the same payment again"`
	Network           string `json:"network,omitempty" jsonschema:"Where the payment was made"`
	Transaction       string `json:"transaction,omitempty"`
	Payer             string `json:"payer,omitempty"`
}

// refused reports whether nothing was charged for a payment and nothing will
// be, so that the client may be asked to pay again.
func refused(o x402.Outcome) bool { return o.Status == x402.Refused || o.Status == x402.Malformed }

// attempted describes every outcome but a refusal.
func (e *Endpoint) attempted(o x402.Outcome) attempted {
	a := attempted{
		common: e.shared(), Reason: o.Reason, Detail: strings.TrimSpace(o.Detail + " " + advice(o.Status)), Intent: o.Intent,
	}
	switch o.Status {
	case x402.Settled:
		a.Paid, a.Status, a.AmountUSD = true, o.Evidence, o.AmountUSD
		a.Network, a.Transaction, a.Payer = o.Response.Network, o.Response.Transaction, o.Response.Payer
		return a
	case x402.Conflict, x402.Limited, x402.Unavailable:
		a.Status = string(o.Status)
	default:
		a.Status = string(x402.Open) // and whatever is not known to be something else
	}
	if o.Status != x402.Conflict {
		a.RetryAfterSeconds = max(1, int64(o.RetryAfter.Seconds()+0.999))
	}
	return a
}

// advice says what was charged and what to do next.
func advice(status x402.Status) string {
	switch status {
	case x402.Settled:
		return "The payment was taken; do not pay again. It counts as received once the report at 'received' shows it confirmed."
	case x402.Refused, x402.Malformed:
		return "Nothing was charged."
	case x402.Conflict:
		return "This payment was not sent; another one before it may have been charged. Send that first one again, and sign no new one."
	case x402.Limited, x402.Unavailable:
		return "Nothing was charged. Send the same payment again after retryAfterSeconds; do not sign a new one."
	default:
		return "You may have been charged. Send the same payment again after retryAfterSeconds; do not sign a new one."
	}
}

// refusal is the reason of a refused payment: its code, and a sentence.
func refusal(o x402.Outcome) string {
	reason := o.Reason
	if o.Detail != "" {
		reason += ": " + o.Detail
	}
	if !strings.Contains(o.Detail, "othing was charged") {
		reason += " " + advice(o.Status)
	}
	return reason
}
