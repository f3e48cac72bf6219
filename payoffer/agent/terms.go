package agent

import (
	"encoding/json"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// unpaid is the error of a quote that answers a call without payment.
const unpaid = "payment required: this is a quote, nothing was charged"

// terms are what a program is told: every rail, and what it needs to pay by
// x402. The members of the invoice keep their names, and those of a
// PaymentRequired theirs, so that one object is both.
type terms struct {
	ID          string         `json:"id"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	AmountUSD   offer.USD      `json:"amountUsd"`
	Currency    string         `json:"currency"`
	Paid        bool           `json:"paid"`
	Card        string         `json:"card"`
	Methods     []offer.Method `json:"methods"`
	Fallback    offer.Fallback `json:"fallback"`
	Invoice     string         `json:"invoice"`
	Received    string         `json:"received"`
	// Error is that of the PaymentRequired, or why a payment was refused.
	Error string `json:"error,omitempty"`
	*x402.PaymentRequired
	*programmatic
}

// programmatic is what goes with a PaymentRequired. Both are left out by an
// offer without a USDC rail.
type programmatic struct {
	Sponsor string `json:"sponsor"`
	Hint    string `json:"hint"`
}

// quote is the terms at one moment, as JSON and as text for people.
type quote struct {
	live     offer.Live
	standing *x402.Quote
	// required is nil without a USDC rail.
	required *x402.PaymentRequired
	data     json.RawMessage
	text     string
}

// quote returns the terms of now. They are rendered again only when the live
// values or the x402 quote have changed.
func (e *Endpoint) quote() *quote {
	live, standing := e.live(), e.payments.Quote()
	if q := e.quoted.Load(); q != nil && q.live == live && q.standing == standing {
		return q
	}
	q := e.demand(live, unpaid)
	q.live, q.standing = live, standing
	e.quoted.Store(q)
	return q
}

// demand is the terms with the reason why they are not met.
func (e *Endpoint) demand(live offer.Live, reason string) *quote {
	o, methods := e.offer, e.offer.Methods(live)
	q := &quote{text: e.describe(methods)}
	t := terms{
		ID: o.ID, Name: o.Name, Description: o.Description, AmountUSD: o.Amount, Currency: "USD", Card: o.Card.URL,
		Methods: methods, Fallback: o.Card.Fallback(), Invoice: o.URL(offer.PathInvoice), Received: o.URL(offer.PathReceived),
	}
	if len(e.payments.Accepts()) > 0 {
		required := e.payments.Required(reason)
		q.required, t.PaymentRequired = &required, &required
		t.programmatic = &programmatic{Sponsor: o.URL(offer.PathSponsor), Hint: e.payments.Hint()}
	}
	if q.required != nil || reason != unpaid {
		t.Error = reason
	}
	q.data = encode(t)
	return q
}

// describe says the terms in plain text, one way to pay a line.
func (e *Endpoint) describe(methods []offer.Method) string {
	var b strings.Builder
	b.WriteString(oneLine(e.offer.Name) + ": one payment of " + e.offer.Amount.String() + " USD to " + oneLine(e.offer.Operator) +
		". This is a quote; nothing was charged. Ways to pay now:\n")
	for _, m := range methods {
		if m.Available {
			b.WriteString("- " + oneLine(m.Title) + ": " + m.Link() + "\n")
		}
	}
	b.WriteString("Pay only after a person has approved the amount and the payee.")
	return b.String()
}

// oneLine keeps an operator's text from looking like lines of ours.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
