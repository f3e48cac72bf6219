package document

import (
	"maps"
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

func text() object { return object{{"type", "string"}} }

func media(mediaType string, schema any) member {
	return member{mediaType, object{{"schema", schema}}}
}

func contents(description string, types ...member) object {
	return object{{"description", description}, {"content", object(types)}}
}

func content(description, mediaType string, schema any) object {
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

// quoteResponse is the 402 answer.
func quoteResponse(o *offer.Offer) object {
	quote := content("The quote. It is not a payment.", typeJSON, ref("Quote"))
	if len(o.USDC()) == 0 {
		return quote
	}
	return with(quote, headerOf("PAYMENT-REQUIRED", "The quote in x402 version 2: base64 of the JSON.", text()))
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

// schemas are the bodies of answers in JSON.
func schemas(o *offer.Offer, served Served) object {
	types := append(slices.Clip(served.Types),
		Type{"Invoice", invoice{}}, Type{"Method", invoiceMethod{}}, Type{"Fallback", offer.Fallback{}},
		Type{"JRD", jrd{}}, Type{"DIDDocument", did{}}, Type{"NodeInfo", nodeInfo{}}, Type{"PackageDocument", packageJSON{}},
		Type{"AgentCard", agentCard{}}, Type{"Linkset", linkset{}})
	if len(o.USDC()) > 0 {
		types = append(types, Type{"X402Resources", x402Discovery{}})
	}
	if o.Funding != nil {
		types = append(types, Type{"FundingManifest", fundingManifest{}})
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

		"FundingManifest.version":                 {"v1.0.0"},
		"FundingManifest.entity.type":             list(offer.EntityTypes),
		"FundingManifest.entity.role":             list(offer.EntityRoles),
		"FundingManifest.funding.channels.type":   {"bank", "payment-provider", "other"},
		"FundingManifest.funding.plans.status":    {"active"},
		"FundingManifest.funding.plans.frequency": {"one-time"},
	}
	maps.Copy(words, served.Words)
	return append(goSchemas(types, words), rpcSchemas()...)
}
