package document

import (
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// References to the responses that many operations share.
var (
	quoteRef   = object{{"$ref", "#/components/responses/Quote"}}
	problemRef = object{{"$ref", "#/components/responses/Problem"}}
)

// ref refers to a schema of the description.
func ref(schema string) object { return object{{"$ref", "#/components/schemas/" + schema}} }

func text() object { return object{{"type", "string"}} }

func described(kind, description string) object {
	return object{{"type", kind}, {"description", description}}
}

func media(mediaType string, schema object) member {
	return member{mediaType, object{{"schema", schema}}}
}

func contents(description string, types ...member) object {
	return object{{"description", description}, {"content", object(types)}}
}

func content(description, mediaType string, schema object) object {
	return contents(description, media(mediaType, schema))
}

// redirect is a response that leads to another address.
func redirect(description string) object {
	location := object{{"description", "The address."}, {"schema", object{{"type", "string"}, {"format", "uri"}}}}
	return object{{"description", description}, {"headers", object{{"Location", location}}}}
}

// answers are the responses of an operation. Every other refusal of a client is
// a problem document.
func answers(responses ...member) object {
	return append(object(responses), on("4XX", problemRef))
}

// on is the response to a status or a range of statuses.
func on(status string, response object) member { return member{status, response} }

func parameter(in, name, description string, schema object) object {
	return object{{"name", name}, {"in", in}, {"description", description}, {"schema", schema}}
}

// required marks a parameter that must be sent.
func required(parameter object) object { return append(parameter, member{"required", true}) }

// ignoredBody describes a request's body that is not read.
func ignoredBody() object {
	return object{{"description", "Ignored."}, {"content", object{{"*/*", object{}}}}}
}

// idPart is a rail's name as a part of an operationId. Rail names hold no
// underscore, so two names cannot meet.
func idPart(rail string) string { return strings.ReplaceAll(rail, "-", "_") }

func railNames(o *offer.Offer) []string {
	names := make([]string, len(o.Rails))
	for i, r := range o.Rails {
		names[i] = r.Name()
	}
	return names
}

// problemResponse is the answer to every refused request.
func problemResponse() object {
	return content("Refused, with what is wrong and what to do (RFC 9457).", "application/problem+json", ref("Problem"))
}

// quoteResponse is the 402 answer.
func quoteResponse(o *offer.Offer) object {
	quote := content("The quote. It is not a payment.", typeJSON, ref("Quote"))
	if len(o.USDC()) == 0 {
		return quote
	}
	return append(quote, member{"headers", object{{"PAYMENT-REQUIRED", object{
		{"description", "The quote in x402 version 2: base64 of the JSON."}, {"schema", text()},
	}}}})
}

// schemas are the shared shapes. None is closed: members may be added.
func schemas(o *offer.Offer) object {
	all := object{
		{"Invoice", invoiceSchema()},
		{"Method", methodSchema(o)},
		{"Fallback", fallbackSchema(o)},
		{"Quote", quoteSchema(o)},
		{"Received", receivedSchema()},
		{"Problem", record(
			[]string{"type", "title", "status", "detail"},
			member{"type", described("string", "A stable URI of the kind of problem.")},
			member{"title", text()},
			member{"status", object{{"type", "integer"}}},
			member{"detail", described("string", "What is wrong and what to do.")},
		)},
	}
	if o.Transfer() != nil {
		all = append(all, member{"Transfer", transferSchema()})
	}
	if len(o.USDC()) > 0 {
		all = append(all, member{"Requirement", requirementSchema()}, member{"Settlement", settlementSchema()})
	}
	return all
}

// record is the schema of an object with its required members.
func record(names []string, properties ...member) object {
	return object{{"type", "object"}, {"required", names}, {"properties", object(properties)}}
}

func listOf(schema object) object { return object{{"type", "array"}, {"items", schema}} }

func dollars() object { return described("number", "US dollars.") }

func uri(description string) object {
	return object{{"type", "string"}, {"format", "uri"}, {"description", description}}
}

func invoiceSchema() object {
	return record(
		[]string{"id", "amountUsd", "currency", "description", "card", "methods"},
		member{"id", text()},
		member{"amountUsd", dollars()},
		member{"currency", object{{"const", "USD"}}},
		member{"description", text()},
		member{"card", uri("The card checkout.")},
		member{"methods", listOf(ref("Method"))},
	)
}

// methodSchema is the schema of offer.Method as the invoice carries it.
func methodSchema(o *offer.Offer) object {
	var schemes []string
	for _, m := range o.Methods(offer.Live{}) {
		if !slices.Contains(schemes, m.Scheme) {
			schemes = append(schemes, m.Scheme)
		}
	}
	return record(
		[]string{"rail", "scheme", "title", "amountUsd", "available"},
		member{"rail", object{{"type", "string"}, {"enum", railNames(o)}}},
		member{"scheme", object{{"type", "string"}, {"enum", schemes}}},
		member{"title", text()},
		member{"url", uri("A web address.")},
		member{"uri", uri("Any other payment URI.")},
		member{"amountUsd", dollars()},
		member{"network", described("string", "The chain as a CAIP-2 id, or \"fiat\".")},
		member{"asset", described("string", "The token contract or the currency.")},
		member{"symbol", text()},
		member{"amountAtomic", described("string", "An integer in the asset's smallest units.")},
		member{"payTo", described("string", "Where the money goes.")},
		member{"memo", described("string", "The text that identifies the offer.")},
		member{"available", object{{"type", "boolean"}}},
		member{"reason", described("string", "Why the method is not available.")},
		member{"uriList", uri("The rail's URI list.")},
		member{"qr", uri("The rail's QR image.")},
	)
}

func fallbackSchema(o *offer.Offer) object {
	return record(
		[]string{"scheme", "network", "amountUsd", "asset", "url", "methods"},
		member{"scheme", object{{"const", offer.SchemeCard}}},
		member{"network", object{{"const", "fiat"}}},
		member{"amountUsd", dollars()},
		member{"asset", object{{"const", "USD"}}},
		member{"url", uri("The card checkout.")},
		member{"methods", listOf(object{{"type", "string"}, {"enum", o.Card.PaymentMethods}})},
	)
}

// quoteSchema is the body of a 402. The terms for programs are there when a
// rail for programs is.
func quoteSchema(o *offer.Offer) object {
	quote := []member{
		{"error", text()},
		{"fallback", ref("Fallback")},
		{"hint", described("string", "Advice to the buyer.")},
	}
	if len(o.USDC()) > 0 {
		quote = append([]member{
			{"x402Version", object{{"type", "integer"}}},
			{"accepts", listOf(ref("Requirement"))},
		}, quote...)
	}
	return record([]string{"error", "fallback"}, quote...)
}

// requirementSchema is one way to pay in x402 version 1.
func requirementSchema() object {
	return record(
		[]string{"scheme", "network", "maxAmountRequired", "asset", "payTo", "resource", "maxTimeoutSeconds"},
		member{"scheme", object{{"const", "exact"}}},
		member{"network", text()},
		member{"maxAmountRequired", described("string", "An integer in the token's atomic units.")},
		member{"asset", described("string", "The token contract.")},
		member{"payTo", described("string", "Where the money goes.")},
		member{"resource", uri("The payable URL.")},
		member{"description", text()},
		member{"mimeType", text()},
		member{"maxTimeoutSeconds", described("integer", "How long a signed payment is valid, in seconds.")},
		member{"extra", described("object", "Name and version of the token's EIP-712 domain.")},
	)
}

// settlementSchema is the body of a paid answer.
func settlementSchema() object {
	return record(
		[]string{"success", "status", "network", "transaction"},
		member{"success", object{{"type", "boolean"}}},
		member{"status", object{
			{"type", "string"}, {"enum", []string{"seen", "claimed"}},
			{"description", "Whether the payment was read on the chain or is the facilitator's word."},
		}},
		member{"amountUsd", dollars()},
		member{"network", text()},
		member{"transaction", described("string", "The transaction's hash.")},
		member{"payer", text()},
		member{"receiptUrl", uri("Where the receipt appears once it is confirmed.")},
	)
}

// transferSchema is the JSON form of the bank-transfer page.
func transferSchema() object {
	return record(
		[]string{"rail", "payee", "amountUsd", "memo", "inbox", "uri"},
		member{"rail", text()},
		member{"payee", text()},
		member{"amountUsd", dollars()},
		member{"memo", described("string", "The text that identifies the offer on the bank statement.")},
		member{"inbox", described("string", "The e-mail address that answers with the bank details.")},
		member{"uri", uri("The mail that asks for the invoice.")},
	)
}

// nullable is a value that is null while it is not known.
func nullable(kind, description string) object {
	return object{{"type", []string{kind, "null"}}, {"description", description}}
}

// receivedSchema is the report of received money.
func receivedSchema() object {
	instant := object{{"type", "string"}, {"format", "date-time"}}
	return record(
		[]string{"status", "observedAt", "goalUsd", "goalMet", "receivedUsd", "externalUsd", "remainingUsd", "rails", "receipts"},
		member{"status", object{
			{"type", "string"}, {"enum", []string{"observed", "partial"}},
			{"description", "partial: some money may be unseen or of unknown value."},
		}},
		member{"observedAt", instant},
		member{"goalUsd", dollars()},
		member{"goalMet", object{{"type", "boolean"}}},
		member{"receivedUsd", dollars()},
		member{"externalUsd", described("number", "US dollars, without the operator's own payments.")},
		member{"remainingUsd", dollars()},
		member{"rails", listOf(record(
			[]string{"rail", "state"},
			member{"rail", text()},
			member{"state", described("string", "How well the rail is observed.")},
			member{"confirmed", nullable("object", "The sum that counts; null when it cannot be known.")},
		))},
		member{"receipts", listOf(record(
			[]string{"id", "number", "rail", "status", "evidence", "occurredAt"},
			member{"id", described("string", "Names the movement of money by its evidence.")},
			member{"number", described("integer", "Counts the receipts, for the parameter before.")},
			member{"rail", text()},
			member{"status", text()},
			member{"evidence", described("string", "What proves the movement.")},
			member{"amountAtomic", described("string", "An integer in the asset's smallest units.")},
			member{"amountUsd", nullable("number", "US dollars.")},
			member{"transaction", text()},
			member{"occurredAt", instant},
		))},
		member{"next", nullable("string", "The address of the page with older receipts; null on the last.")},
	)
}
