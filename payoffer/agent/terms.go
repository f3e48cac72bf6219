package agent

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// unpaid is the error of a quote that answers a call without payment.
const unpaid = "payment required: this is a quote, which charges nothing"

// common are the members of every result of the tool.
type common struct {
	ID        string    `json:"id" jsonschema:"Name of the offer"`
	Name      string    `json:"name"`
	AmountUSD offer.USD `json:"amountUsd" jsonschema:"Price in US dollars"`
	Currency  string    `json:"currency"`
	Paid      bool      `json:"paid" jsonschema:"Whether this call paid; a quote never does"`
	Received  string    `json:"received,omitempty" jsonschema:"URL of the report on which payments arrived"`
}

func (e *Endpoint) common() common {
	c := common{ID: e.Offer.ID, Name: e.Offer.Name, AmountUSD: e.Offer.Amount, Currency: "USD"}
	if !e.Offer.PrivateReceived {
		c.Received = e.Offer.URL(offer.PathReceived)
	}
	return c
}

// terms are the members of the invoice and of a PaymentRequired under their own names, so that one object is both.
type terms struct {
	common
	Description string         `json:"description"`
	Card        string         `json:"card" jsonschema:"Card checkout, to be opened by a person"`
	Methods     []offer.Method `json:"methods" jsonschema:"Every way to pay; one that is not available now says why"`
	Fallback    offer.Fallback `json:"fallback" jsonschema:"Card checkout for a client that cannot pay by x402"`
	Invoice     string         `json:"invoice"`
	Error       string         `json:"error,omitempty" jsonschema:"Why nothing is paid yet"`
	*x402.PaymentRequired
	*sponsorship
}

// sponsorship goes with a PaymentRequired. An offer without a USDC rail has neither.
type sponsorship struct {
	Sponsor string `json:"sponsor" jsonschema:"Takes an x402 payment by POST"`
	Hint    string `json:"hint" jsonschema:"Why an x402 client may refuse to pay"`
}

// quote is the terms at one moment, as JSON and as text for people.
type quote struct {
	live      offer.Live
	x402Quote *x402.Quote
	required  *x402.PaymentRequired // nil without a USDC rail
	data      json.RawMessage
	text      string
}

// quote returns the current terms. It renders them only if the rate or the x402 quote has changed.
func (e *Endpoint) quote() *quote {
	live, x402Quote := e.Live(), e.Payments.Quote()
	q := e.quoted.Load()
	if q == nil || q.live != live || q.x402Quote != x402Quote {
		q = e.render(live, unpaid)
		q.x402Quote = x402Quote
		e.quoted.Store(q)
	}
	return q.withNewToken()
}

// withNewToken returns the quote with another token in the extension access, because only one payer may know it.
func (q *quote) withNewToken() *quote {
	if q.required == nil {
		return q
	}
	renewed, required, access := *q, *q.required, x402.NewAccess()
	renewed.data = bytes.Replace(q.data, required.Extensions[x402.ExtensionAccess], access, 1)
	required.Extensions = maps.Clone(required.Extensions)
	required.Extensions[x402.ExtensionAccess] = access
	renewed.required = &required
	return &renewed
}

// render renders the terms with the reason why they are not met.
func (e *Endpoint) render(live offer.Live, reason string) *quote {
	o, methods := e.Offer, e.Offer.Methods(live)
	q := &quote{live: live, text: e.describe(methods)}
	t := terms{
		common: e.common(), Description: o.Description, Card: o.Card.URL, Methods: methods, Fallback: o.Card.Fallback(),
		Invoice: o.URL(offer.PathInvoice),
	}
	if len(e.Payments.Accepts()) > 0 {
		required := e.Payments.Required(reason)
		q.required, t.PaymentRequired = &required, &required
		t.sponsorship = &sponsorship{Sponsor: o.URL(offer.PathSponsor), Hint: e.Payments.Hint()}
	}
	if q.required != nil || reason != unpaid {
		t.Error = reason
	}
	q.data = document.Line(t)
	return q
}

// describe returns the terms as plain text with one line for each way to pay.
func (e *Endpoint) describe(methods []offer.Method) string {
	var b strings.Builder
	b.WriteString(oneLine(e.Offer.Name) + ": one payment of " + e.Offer.Amount.String() + " USD to " + oneLine(e.Offer.Operator) +
		". This is a quote, which charges nothing. Ways to pay now:\n")
	for _, m := range methods {
		if m.Available {
			b.WriteString("- " + oneLine(m.Title) + ": " + m.Link() + "\n")
			if m.Bank != nil {
				b.WriteString("  or transfer it to " + oneLine(m.Bank.String()) + ", reference " + oneLine(m.Memo) + "\n")
			}
		}
	}
	b.WriteString("Pay only after a person has approved the amount and the payee.")
	return b.String()
}

// oneLine prevents an operator's text from looking like lines of this program.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

var noInput = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)

// outputSchema describes terms and outcomes; a result is one of them. The members of common are required.
var outputSchema = func() *jsonschema.Schema {
	schema := schemaOf[terms]()
	maps.Copy(schema.Properties, schemaOf[report]().Properties)
	schema.Required, schema.PropertyOrder = schemaOf[common]().Required, nil
	return schema
}()

func schemaOf[T any]() *jsonschema.Schema {
	schema, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[offer.USD](): {Type: "number"}, reflect.TypeFor[offer.EUR](): {Type: "number"}, reflect.TypeFor[json.RawMessage](): {},
	}})
	if err != nil {
		panic("agent: " + err.Error()) // the types are those of this module
	}
	return schema
}

// report describes the outcome of a payment that was not rejected. A client would answer a demand by signing again.
type report struct {
	common
	Status            string `json:"status" jsonschema:"Of a payment: seen on the chain, claimed by the facilitator, open (not known yet), unavailable, limited or conflict"`
	Reason            string `json:"reason,omitempty" jsonschema:"Code of the status"`
	Detail            string `json:"detail" jsonschema:"What became of the payment and what to do next"`
	Intent            string `json:"intent,omitempty" jsonschema:"Names a payment whose outcome is not known yet"`
	RetryAfterSeconds int64  `json:"retryAfterSeconds,omitempty" jsonschema:"When to send the same payment again"`
	Network           string `json:"network,omitempty" jsonschema:"Where the payment was made"`
	Transaction       string `json:"transaction,omitempty"`
	Payer             string `json:"payer,omitempty"`
	Authorization     string `json:"authorization,omitempty" jsonschema:"Nonce of the authorization that was charged"`
	ReceiptURL        string `json:"receiptUrl,omitempty" jsonschema:"Page of the receipt, for the payer only: everyone who has the address can read it"`
}

func isRejected(o x402.Outcome) bool { return o.Status == x402.Refused || o.Status == x402.Malformed }

func (e *Endpoint) report(o x402.Outcome) report {
	r := report{
		common: e.common(), Reason: o.Reason, Detail: strings.TrimSpace(o.Detail + " " + advice(o.Status)), Intent: o.Intent,
		ReceiptURL: e.PaidURL(o),
	}
	switch o.Status {
	case x402.Settled:
		r.Paid, r.Status, r.AmountUSD = true, o.Evidence, o.AmountUSD
		r.Network, r.Transaction, r.Payer = o.Response.Network, o.Response.Transaction, o.Response.Payer
		r.Intent, r.Authorization = "", o.Intent
		return r
	case x402.Conflict, x402.Limited, x402.Unavailable:
		r.Status = string(o.Status)
	default: // an unknown status is an unknown outcome
		r.Status = string(x402.Open)
	}
	if o.Status != x402.Conflict {
		r.RetryAfterSeconds = max(1, int64(o.RetryAfter.Seconds()+0.999))
	}
	return r
}

func advice(status x402.Status) string {
	switch status {
	case x402.Settled:
		return "The payment was taken; do not pay again. It counts as received once the page at 'receiptUrl' shows it confirmed. Only the payer gets that address."
	case x402.Refused, x402.Conflict:
		return "" // the detail is complete
	case x402.Malformed:
		return "The payment was not sent."
	case x402.Limited, x402.Unavailable:
		return "Send the same payment again after retryAfterSeconds; do not sign a new one."
	default:
		return "You may have been charged. Send the same payment again after retryAfterSeconds; do not sign a new one."
	}
}

func rejection(o x402.Outcome) string {
	reason := o.Reason
	if o.Detail != "" {
		reason += ": " + o.Detail
	}
	return strings.TrimSpace(reason + " " + advice(o.Status))
}
