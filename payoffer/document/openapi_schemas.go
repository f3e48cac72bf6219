package document

import (
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// References to the responses that many operations share.
var (
	quoteRef   = object{{"$ref", "#/components/responses/Quote"}}
	laterRef   = object{{"$ref", "#/components/responses/Later"}}
	problemRef = object{{"$ref", "#/components/responses/Problem"}}
)

// Media types of answers that are no documents.
const (
	typeHTML    = "text/html"
	typeText    = "text/plain"
	typeProblem = "application/problem+json"
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

// with adds headers that the response always has.
func with(response object, headers ...member) object {
	return append(response, member{"headers", object(headers)})
}

func headerOf(name, description string, schema object) member {
	return member{name, object{{"description", description}, {"required", true}, {"schema", schema}}}
}

// redirect is a response that leads to another address; its body is a page with
// the link.
func redirect(description string) object {
	return with(content(description, typeHTML, text()),
		headerOf("Location", "The address.", object{{"type", "string"}, {"format", "uri-reference"}}))
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

// ignoredBody describes a request's body that is not read, whatever its type.
func ignoredBody() object {
	return object{{"description", "Ignored."}, {"content", object{media(typeJSON, object{{"type", "object"}})}}}
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

// problemTypes are the kinds of problems, as package web answers them.
func problemTypes(o *offer.Offer, hooks []string) []string {
	kinds := []string{
		"method-not-allowed", "body-too-large", "bad-body", "not-found", "not-started", "no-rate", "bad-resource", "unknown-resource",
		"bad-page", "ledger-unavailable", "malformed-payment",
	}
	if len(o.USDC()) > 0 {
		kinds = append(kinds, "open-settlement", "settlement-unavailable", "payment-conflict", "too-many-attempts")
	}
	if len(hooks) > 0 {
		kinds = append(kinds, "unverified-delivery", "malformed-delivery", "delivery-unavailable")
	}
	for i, kind := range kinds {
		kinds[i] = "urn:pay-offer:problem:" + kind
	}
	return kinds
}

// problemResponse is the answer to every refused request.
func problemResponse() object {
	return content("Refused, with what is wrong and what to do (RFC 9457).", typeProblem, ref("Problem"))
}

// laterResponse is the answer to a request that is to be sent again.
func laterResponse() object {
	return with(content("Not now. Send the same again after the time in Retry-After.", typeProblem, ref("Problem")),
		headerOf("Retry-After", "Seconds to wait.", object{{"type", "integer"}, {"minimum", 1}}))
}

// schemas are the shared shapes. None is closed, for members may be added; the
// black-box tests close them, so that no answer says more than its description.
func schemas(o *offer.Offer, hooks []string) object {
	all := object{
		{"Invoice", invoiceSchema()},
		{"Method", methodSchema(o)},
		{"Fallback", fallbackSchema(o)},
		{"Quote", quoteSchema(o)},
		{"Terms", termsSchema(o)},
		{"Received", receivedSchema()},
		{"RailReport", railReportSchema()},
		{"Sum", sumSchema()},
		{"Receipt", receiptSchema()},
		{"Feed", feedSchema()},
		{"Transition", transitionSchema()},
		{"Problem", record(
			[]string{"type", "title", "status", "detail"},
			member{"type", oneOf(problemTypes(o, hooks), "What kind of problem it is.")},
			member{"title", text()},
			member{"status", object{{"type", "integer"}}},
			member{"detail", described("string", "What is wrong and what to do.")},
			member{"reason", described("string", "A stable code of the payment protocol.")},
			member{"intent", described("string", "The payment whose outcome is not known yet.")},
		)},
	}
	if o.Transfer() != nil {
		all = append(all, member{"Transfer", transferSchema()})
	}
	if len(o.USDC()) > 0 {
		all = append(all, member{"Requirement", requirementSchema()}, member{"Settlement", settlementSchema()})
	}
	return append(append(all, rpcSchemas()...), documentSchemas(o)...)
}

// record is the schema of an object with its required members.
func record(names []string, properties ...member) object {
	return object{{"type", "object"}, {"required", names}, {"properties", object(properties)}}
}

func listOf(schema object) object { return object{{"type", "array"}, {"items", schema}} }

func dollars() object { return described("number", "US dollars.") }

// decimal is an amount of dollars for programs without exact numbers.
func decimal() object {
	return object{{"type", "string"}, {"pattern", `^-?[0-9]+\.[0-9]{2}$`}, {"description", "US dollars with two decimals."}}
}

func currencyMember() member { return member{"currency", object{{"const", "USD"}}} }

func uri(description string) object {
	return object{{"type", "string"}, {"format", "uri"}, {"description", description}}
}

func invoiceSchema() object {
	return record(
		[]string{"id", "amountUsd", "currency", "description", "card", "methods"},
		member{"id", text()},
		member{"amountUsd", dollars()},
		currencyMember(),
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

// transferSchema is the JSON form of the bank-transfer page.
func transferSchema() object {
	return record(
		[]string{"rail", "title", "payee", "amountUsd", "amount", "currency", "memo", "inbox", "uri"},
		member{"rail", text()},
		member{"title", text()},
		member{"payee", text()},
		member{"amountUsd", dollars()},
		member{"amount", decimal()},
		currencyMember(),
		member{"memo", described("string", "The text that identifies the offer on the bank statement.")},
		member{"inbox", described("string", "The e-mail address that answers with the bank details.")},
		member{"uri", uri("The mail that asks for the invoice.")},
	)
}
