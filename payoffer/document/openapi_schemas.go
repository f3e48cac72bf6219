package document

import (
	"maps"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Media types of answers that are no documents.
const (
	typeHTML    = "text/html"
	typeText    = "text/plain"
	typeProblem = "application/problem+json"
)

// What many operations share.
var (
	text    = object{{"type", "string"}}
	page    = media(typeHTML, text)
	anyJSON = media(typeJSON, object{{"type", "object"}})

	quoteRef   = object{{"$ref", "#/components/responses/Quote"}}
	laterRef   = object{{"$ref", "#/components/responses/Later"}}
	problemRef = object{{"$ref", "#/components/responses/Problem"}}
	later      = member{"503", laterRef}

	quoteHeader = always("PAYMENT-REQUIRED", "The quote in x402 version 2: base64 of the JSON.", text)

	// ignoredBody describes a request's body that is not read, whatever its type.
	ignoredBody = object{{"description", "Ignored."}, {"content", object{anyJSON}}}
)

func media(mediaType string, schema any) member {
	return member{mediaType, object{{"schema", schema}}}
}

func contents(description string, types ...member) object {
	return object{{"description", description}, {"content", object(types)}}
}

// refused is the answer to a refused request, and notNow that to one that is to be
// sent again: a problem document, or also a page with the same words.
func refused(also ...member) object {
	return contents("Refused, with what is wrong and what to do (RFC 9457).", append([]member{media(typeProblem, ref("Problem"))}, also...)...)
}

func notNow(also ...member) object {
	return with(contents("Not now. Send the same again after the time in Retry-After.", append([]member{media(typeProblem, ref("Problem"))}, also...)...),
		always("Retry-After", "Seconds to wait.", object{{"type", "integer"}, {"minimum", 1}}))
}

// answers are the responses of an operation. Every other refusal of a client is
// a problem document.
func answers(responses ...member) object {
	return append(object(responses), member{"4XX", problemRef})
}

func ok(description string, types ...member) member {
	return member{"200", contents(description, types...)}
}

// redirect is a response that leads to another address; its body is a page with
// the link.
func redirect(description string) member {
	return member{"302", with(contents(description, page),
		always("Location", "The address.", object{{"type", "string"}, {"format", "uri-reference"}}))}
}

// with adds headers to a response.
func with(response object, headers ...member) object {
	return append(response, member{"headers", object(headers)})
}

// always is a header that a response has, and sometimes is one that it may have.
func always(name, description string, schema object) member {
	return member{name, object{{"description", description}, {"required", true}, {"schema", schema}}}
}

func sometimes(name, description string) member {
	return member{name, object{{"description", description}, {"schema", text}}}
}

func parameter(in, name, description string, schema object) object {
	return object{{"name", name}, {"in", in}, {"description", description}, {"schema", schema}}
}

// required marks a parameter that must be sent.
func required(parameter object) object { return append(parameter, member{"required", true}) }

func railNames(o *offer.Offer) []string {
	names := make([]string, len(o.Rails))
	for i, r := range o.Rails {
		names[i] = r.Name()
	}
	return names
}

// sharedResponses are those that the references mean: the 402 answer, that to a
// request that is to be sent again, and that to every refused request.
func sharedResponses(o *offer.Offer) object {
	quote := contents("The quote. It is not a payment.", media(typeJSON, ref("Quote")))
	if len(o.USDC()) > 0 {
		quote = with(quote, quoteHeader)
	}
	return object{
		{"Quote", quote},
		{"Later", notNow(page)},
		{"Problem", refused(page)},
	}
}

// schemas are the bodies of answers in JSON.
func schemas(o *offer.Offer, served Served) object {
	types := append(slices.Clip(served.Types),
		Type{"Invoice", invoice{}}, Type{"Method", invoiceMethod{}}, Type{"Fallback", offer.Fallback{}},
		Type{"JRD", descriptor{}}, Type{"DIDDocument", did{}}, Type{"NodeInfo", nodeInfo{}}, Type{"PackageDocument", packageJSON{}},
		Type{"AgentCard", agentCard{}}, Type{"Linkset", linkset{}})
	if len(o.USDC()) > 0 {
		types = append(types, Type{"X402Resources", x402Discovery{}})
	}
	var schemes []any
	for _, m := range o.Methods(offer.Live{}) {
		if !slices.Contains(schemes, any(m.Scheme)) {
			schemes = append(schemes, m.Scheme)
		}
	}
	words := map[string][]any{
		"currency":      {"USD"},
		"Method.rail":   list(railNames(o)),
		"Method.scheme": schemes,

		"Fallback.scheme":  {offer.SchemeCard},
		"Fallback.network": {"fiat"},
		"Fallback.asset":   {"USD"},
		"Fallback.methods": list(o.Card.PaymentMethods),

		"NodeInfo.version":          {"2.1"},
		"AgentCard.protocolVersion": {"0.3.0"},
		"X402Resources.version":     {1},
		"X402Resources.x402Version": {2},
		"X402Resources.items.type":  {"http"},
	}
	maps.Copy(words, served.Words)
	return append(goSchemas(types, words), rpcSchemas()...)
}

// rpcSchemas are the messages of the agent endpoint (JSON-RPC 2.0 sections 4
// and 5), which no Go type of ours describes: the MCP SDK writes some of them.
func rpcSchemas() []member {
	record := func(required []string, properties ...member) object {
		return object{{"type", "object"}, {"required", required}, {"properties", object(properties)}}
	}
	version := member{"jsonrpc", object{{"type", "string"}, {"const", "2.0"}}}
	id := member{"id", object{{"description", "A string or an integer; the response repeats it, or has null where it could not be read."}}}
	return []member{
		{"JSONRPCRequest", record([]string{"jsonrpc", "method"}, version, id,
			member{"method", text},
			member{"params", object{{"type", "object"}}})},
		{"JSONRPCResponse", record([]string{"jsonrpc"}, version, id,
			member{"result", object{{"type", "object"}}},
			member{"error", record([]string{"code", "message"},
				member{"code", object{{"type", "integer"}}},
				member{"message", text},
				member{"data", object{{"description", "What else is known of the error."}}})})},
	}
}
