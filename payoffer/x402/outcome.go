package x402

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Status is how a payment attempt ended, or that its end is not known yet.
type Status string

const (
	// Settled: the buyer was charged; Outcome.Response says how (HTTP 200).
	Settled Status = "settled"
	// Refused: this payload was not charged and will not be (402).
	Refused Status = "refused"
	// Open: sent to settlement, outcome unknown; the same payload must be
	// sent again later, never a new one (503).
	Open Status = "open"
	// Unavailable: it was not sent; try later (503).
	Unavailable Status = "unavailable"
	// Conflict: it was not sent, for another payment is in the way, or what
	// became of it before is not known (409).
	Conflict Status = "conflict"
	// Malformed: the payload cannot be read (400).
	Malformed Status = "malformed"
	// Limited: too many attempts from this client (429).
	Limited Status = "limited"
)

// Attempt is one payment as it arrived.
type Attempt struct {
	// Payload is the JSON of the PaymentPayload, already taken out of its
	// transport: a header, or MCP and A2A metadata.
	Payload []byte
	// Client is the address that the rate limit counts by; empty for none.
	Client string
	// Refuse is asked of a payment that nobody has seen before and that pays: why the
	// transport refuses it all the same, as a code and a sentence, or "". nil for a
	// transport that has nothing to ask.
	Refuse func() (reason, detail string)
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
	// Intent is the nonce of the authorization that was charged, or that is open
	// while the outcome is unknown: this attempt's own, or an earlier one of the
	// same payer.
	Intent string
	// At is when a settled payment was taken.
	At time.Time
	// Account and Payer are those of the authorization in Intent, where the attempt
	// may be told of it: it was charged, or it is the attempt's own.
	Account, Payer string
	// RetryAfter is when to ask again, with Open, Unavailable and Limited.
	RetryAfter time.Duration
}

const (
	// retryOpen is when a client should ask again for an unknown outcome.
	retryOpen = 10 * time.Second
	// retrySoon is when it should where a block or two decide.
	retrySoon = 3 * time.Second
)

// ReasonOperator is the reason of an open payment that the operator has called
// unpaid.
const ReasonOperator = "operator_not_paid"

// outcome answers a payment that is not settled.
func (p *payment) outcome(status Status, reason, detail string) Outcome {
	o := Outcome{Status: status, Version: p.version, Reason: reason, Detail: detail}
	if status == Open {
		o.RetryAfter = retryOpen
	}
	return o
}

// unreadable answers a payment of which nobody can tell whether it was sent
// before: the ledger, which would know, cannot be read.
func (p *payment) unreadable() Outcome {
	return p.outcome(Open, "ledger_unavailable",
		"The books cannot be read at the moment. It was not sent now; whether it was sent before is not known.")
}

// unavailable answers a payment that was not sent.
func (p *payment) unavailable(reason string, retryAfter time.Duration) Outcome {
	o := p.outcome(Unavailable, reason,
		"The payment cannot be taken at the moment. It was not sent; send the same payment again later.")
	o.RetryAfter = retryAfter
	return o
}

// outcomeOf is what the ledger knows of a payment, in its dialect.
func (p *payment) outcomeOf(i ledger.Intent) Outcome {
	switch i.State {
	case ledger.IntentSettled:
		o := Outcome{Status: Settled, Version: p.version, Evidence: "claimed", Response: settleResponse(p.version, i), Intent: i.Nonce, At: time.Unix(i.CreatedAt, 0), Account: i.Account, Payer: i.From}
		if i.IntentKey != p.key() {
			o.Detail = "An earlier authorization of the same payer was charged, whose nonce is in 'authorization'; this one was not sent."
		}
		if i.Evidence == ledger.EvidenceChain {
			o.Evidence = "seen"
		}
		if i.USDCents != nil {
			o.AmountUSD = offer.USD(*i.USDCents)
		}
		return o
	case ledger.IntentRefused:
		if i.Reason == reasonRejected {
			return p.rejected()
		}
		o := p.outcome(Refused, i.Reason, "This payment did not happen and cannot happen any more."+nothingCharged+" Sign a new one.")
		switch i.Reason {
		case ReasonOperator:
			o.Detail = "The operator says that this payment did not happen. Sign a new one."
		case reasonElsewhere, reasonValue:
			o.Detail = usedElsewhere
		}
		o.Response = &SettleResponse{ErrorReason: i.Reason, Network: networkIn(p.version, i.Network), Payer: i.From}
		return o
	default:
		o := p.outcome(Open, "settlement_unknown",
			"The payment was sent and its outcome is not known yet. Do not sign another one: send the same payment again until it is answered.")
		if i.Facilitator == "" {
			o.Detail = notKnown + " Send the same payment again until it is answered."
		}
		if _, text, found := strings.Cut(i.Reason, textMark); found {
			o.Detail += says(text)
		}
		o.Intent, o.Account, o.Payer = i.Nonce, i.Account, i.From
		return o
	}
}

// settleResponse renders the answer that is stored with a settled intent, or
// what its evidence amounts to.
func settleResponse(version int, i ledger.Intent) *SettleResponse {
	r := &SettleResponse{Success: true, Transaction: i.Transaction, Payer: i.From, Amount: strconv.FormatInt(i.Amount, 10)}
	if i.Answer != nil {
		// The answer is one that was rendered here.
		_ = json.Unmarshal(i.Answer, r)
	}
	if i.Transaction != "" {
		// The chain may have mined it under another hash than was claimed.
		r.Transaction = i.Transaction
	}
	r.Network = networkIn(version, i.Network)
	if version == 1 {
		r.Extensions = nil // they are of version 2
	}
	return r
}

// networkIn names a network in a dialect: by CAIP-2 id or by chain name.
func networkIn(version int, caip2 string) string {
	if network, err := offer.LookupNetwork(caip2); err == nil && version == 1 {
		return network.Name
	}
	return caip2
}
