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
	live, standing := e.Live(), e.Payments.Quote()
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
	o, methods := e.Offer, e.Offer.Methods(live)
	q := &quote{text: e.describe(methods)}
	t := terms{
		ID: o.ID, Name: o.Name, Description: o.Description, AmountUSD: o.Amount, Currency: "USD", Card: o.Card.URL,
		Methods: methods, Fallback: o.Card.Fallback(), Invoice: o.URL(offer.PathInvoice), Received: o.URL(offer.PathReceived),
	}
	if len(e.Payments.Accepts()) > 0 {
		required := e.Payments.Required(reason)
		q.required, t.PaymentRequired = &required, &required
		t.programmatic = &programmatic{Sponsor: o.URL(offer.PathSponsor), Hint: e.Payments.Hint()}
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
	b.WriteString(oneLine(e.Offer.Name) + ": one payment of " + e.Offer.Amount.String() + " USD to " + oneLine(e.Offer.Operator) +
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

// noInput is the schema that the MCP specification recommends for a tool
// without parameters. Arguments are not looked at, so a client that sends some
// is answered all the same.
var noInput = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)

// outputSchema describes terms and attempted.
var outputSchema = json.RawMessage(`{
	"type": "object",
	"required": ["id", "name", "amountUsd", "currency", "paid", "received"],
	"properties": {
		"id": {"type": "string", "description": "Name of the offer"},
		"name": {"type": "string"},
		"description": {"type": "string"},
		"amountUsd": {"type": "number", "description": "Price in US dollars"},
		"currency": {"type": "string"},
		"paid": {"type": "boolean", "description": "Whether this call paid; a quote never does"},
		"card": {"type": "string", "format": "uri", "description": "Card checkout, to be opened by a person"},
		"methods": {
			"type": "array",
			"description": "Every way to pay; one that is not available now says why",
			"items": {
				"type": "object",
				"required": ["rail", "scheme", "title", "amountUsd", "available"],
				"properties": {
					"rail": {"type": "string"},
					"scheme": {"type": "string"},
					"title": {"type": "string"},
					"url": {"type": "string", "format": "uri"},
					"uri": {"type": "string", "format": "uri"},
					"amountUsd": {"type": "number"},
					"network": {"type": "string", "description": "CAIP-2 id, or fiat"},
					"asset": {"type": "string"},
					"symbol": {"type": "string"},
					"amountAtomic": {"type": "string", "description": "Integer in the asset's atomic units"},
					"payTo": {"type": "string"},
					"memo": {"type": "string"},
					"available": {"type": "boolean"},
					"reason": {"type": "string"}
				}
			}
		},
		"fallback": {"type": "object", "description": "Card checkout for a client that cannot pay by x402"},
		"invoice": {"type": "string", "format": "uri"},
		"received": {"type": "string", "format": "uri", "description": "Reports which payments arrived"},
		"x402Version": {"type": "integer"},
		"error": {"type": "string", "description": "Why nothing is paid yet"},
		"resource": {"type": "object", "description": "What is paid for, in x402"},
		"sponsor": {"type": "string", "format": "uri", "description": "Takes an x402 payment by POST"},
		"accepts": {"type": "array", "items": {"type": "object"}, "description": "x402 payment requirements; amounts in atomic units"},
		"extensions": {"type": "object", "description": "x402 extensions"},
		"hint": {"type": "string", "description": "Why an x402 client may refuse to pay"},
		"status": {"type": "string", "description": "Of a payment: seen on the chain, claimed by the facilitator, open (its outcome is not known yet), unavailable, limited or conflict"},
		"reason": {"type": "string", "description": "Code of the status"},
		"detail": {"type": "string", "description": "What became of the payment and what to do next"},
		"intent": {"type": "string", "description": "Names a payment whose outcome is not known yet"},
		"retryAfterSeconds": {"type": "integer", "description": "When to send the same payment again"},
		"network": {"type": "string", "description": "Where the payment was made"},
		"transaction": {"type": "string"},
		"payer": {"type": "string"}
	}
}`)
