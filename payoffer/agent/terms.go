package agent

import (
	"encoding/json"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// terms are what a program is told: every rail, and what it needs to pay by
// x402. The members of the invoice keep their names.
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
	*programmatic
}

// programmatic is left out by an offer without a USDC rail.
type programmatic struct {
	X402Version int                 `json:"x402Version"`
	Sponsor     string              `json:"sponsor"`
	Accepts     []x402.Requirements `json:"accepts"`
	Hint        string              `json:"hint"`
}

// quote is the terms at one moment, as JSON and as text for people.
type quote struct {
	live offer.Live
	data json.RawMessage
	text string
}

// quote returns the terms of now. They are rendered again only when the live
// values have changed.
func (e *Endpoint) quote() *quote {
	live := e.live()
	if q := e.quoted.Load(); q != nil && q.live == live {
		return q
	}
	methods := e.offer.Methods(live)
	q := &quote{live: live, data: encode(e.terms(methods)), text: e.describe(methods)}
	e.quoted.Store(q)
	return q
}

func (e *Endpoint) terms(methods []offer.Method) terms {
	o := e.offer
	t := terms{
		ID: o.ID, Name: o.Name, Description: o.Description, AmountUSD: o.Amount, Currency: "USD", Card: o.Card.URL,
		Methods: methods, Fallback: o.Card.Fallback(), Invoice: o.URL(offer.PathInvoice), Received: o.URL(offer.PathReceived),
	}
	if accepts := e.payments.Accepts(); len(accepts) > 0 {
		t.programmatic = &programmatic{X402Version: 2, Sponsor: o.URL(offer.PathSponsor), Accepts: accepts, Hint: e.payments.Hint()}
	}
	return t
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
