package x402

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Status is how a payment attempt ended: an answer of the table, or one without a payment.
type Status = accounting.Answer

const (
	Settled     = accounting.AnswerSettled
	Refused     = accounting.AnswerRefused
	Open        = accounting.AnswerOpen
	Unavailable = accounting.AnswerUnavailable
	Conflict    = accounting.AnswerConflict
	// Malformed: the payload cannot be read (400).
	Malformed Status = "malformed"
	// Limited: too many attempts from this client (429).
	Limited Status = "limited"
)

type Attempt struct {
	Payload []byte
	// Secret is what only the payer knows of the request, if the payload has no token of the extension access.
	Secret string
	// Client is the address that the rate limit counts by; empty for none.
	Client string
	// Deferred: the payment is charged after the application's answer, for which its quote did not name a flow.
	Deferred bool
	// Response is the response that will have the answer. Without one (nil) no charge becomes acknowledged.
	Response *Response
	// Refuse returns why the transport refuses a new, valid payment (a code and a sentence), or "". It may be nil.
	Refuse func() (reason, detail string)
}

// Outcome answers an attempt.
type Outcome struct {
	Status  Status
	Version int
	// Reason is a stable code for a client, Detail a sentence for a person.
	Reason, Detail string
	// Response is set when settled, and when settlement definitely failed.
	Response *SettleResponse
	// Evidence of a settled payment: "seen" (the Transfer on the chain) or "claimed" (the facilitator's report).
	Evidence string
	// AmountUSD is the value of a settled payment when it was made, in cents.
	AmountUSD offer.USD
	// Intent is the nonce of the authorization that was charged or is open: this attempt's, or an earlier one of the same payer.
	Intent string
	At     time.Time
	// Account and Payer are those of Intent; empty if it is another open authorization.
	Account, Payer string
	// ByPayer: the request proves that its sender is the payer of Intent. A settled authorization does not, because its
	// calldata is public: only its first request, one with the same secret, or a new authorization of the payer does.
	ByPayer bool
	// RetryAfter is when to ask again, with Open, Unavailable and Limited.
	RetryAfter time.Duration
}

const (
	// retryOpen is RetryAfter of an unknown outcome, and retrySoon if the next blocks decide it.
	retryOpen = 10 * time.Second
	retrySoon = 3 * time.Second
)

func (p *payment) outcome(status Status, reason, detail string) Outcome {
	o := Outcome{Status: status, Version: p.version, Reason: reason, Detail: detail}
	if status == Open {
		o.RetryAfter = retryOpen
	}
	return o
}

// ledgerUnavailable answers a payment that may have been sent before: the ledger cannot be read.
func (p *payment) ledgerUnavailable() Outcome {
	return p.outcome(Open, "ledger_unavailable",
		"The ledger cannot be read now, so the payment was not sent. It is not known whether an earlier request sent it.")
}

const detailUnavailable = "This server cannot take the payment now and did not send it."

func (p *payment) unavailable(reason string, retryAfter time.Duration) Outcome {
	o := p.outcome(Unavailable, reason, detailUnavailable)
	o.RetryAfter = retryAfter
	return o
}

// outcomeOf answers a payment with an intent, in the payment's x402 version.
func (p *payment) outcomeOf(i ledger.Intent) Outcome {
	switch i.State {
	case ledger.IntentSettled:
		o := Outcome{Status: Settled, Version: p.version, Evidence: "claimed", Response: settleResponse(p.version, i),
			Intent: i.Nonce, At: time.Unix(i.CreatedAt, 0), Account: i.Account, Payer: i.From, ByPayer: p.proves(i)}
		if i.IntentKey != p.key() {
			o.Detail = "An earlier authorization of this payer was charged; its nonce is in 'authorization'. The one in this request was not sent."
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
		o := p.outcome(Refused, i.Reason, "This authorization can no longer be charged."+nothingCharged+" Sign a new one.")
		switch i.Reason {
		case accounting.ReasonOperator:
			o.Detail = "The seller has declared this payment as not paid. Sign a new one."
		case reasonElsewhere, reasonValue:
			o.Detail = detailElsewhere
		}
		o.Response = &SettleResponse{ErrorReason: i.Reason, Network: networkIn(p.version, i.Network), Payer: i.From}
		return o
	default:
		o := p.outcome(Open, "settlement_unknown",
			"The payment was sent to the facilitator, and its outcome is not known yet.")
		if i.Facilitator == "" {
			o.Detail = detailNotSent
		}
		if code, _, _ := strings.Cut(i.Reason, textMark); i.Facilitator != "" && code != "" {
			o.Detail += " The reason is " + code + "."
		}
		o.Intent, o.Account, o.Payer, o.ByPayer = i.Nonce, i.Account, i.From, p.proves(i)
		return o
	}
}

// proves reports whether the request proves that its sender is the payer of an intent.
func (p *payment) proves(i ledger.Intent) bool {
	return p.byPayer || p.secret != "" && p.secret == i.Secret
}

// settleResponse is the stored answer of a settled intent, or a new one.
func settleResponse(version int, i ledger.Intent) *SettleResponse {
	r := &SettleResponse{Success: true, Transaction: i.Transaction, Payer: i.From, Amount: strconv.FormatInt(i.Amount, 10)}
	if i.Answer != nil {
		_ = json.Unmarshal(i.Answer, r) // it was rendered here
	}
	if i.Transaction != "" {
		// It may have been mined under another hash than the facilitator reported.
		r.Transaction = i.Transaction
	}
	r.Network = networkIn(version, i.Network)
	if version == 1 {
		r.Extensions = nil // they are of version 2
	}
	return r
}

// networkIn is a network's name in an x402 version: its chain name in 1, its CAIP-2 id in 2.
func networkIn(version int, caip2 string) string {
	if network, err := offer.LookupNetwork(caip2); err == nil && version == 1 {
		return network.Name
	}
	return caip2
}
