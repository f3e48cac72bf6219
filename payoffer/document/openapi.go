package document

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Operation is one operation of the API description. Package web has one for each route.
type Operation struct {
	Method, Path, Tag    string
	Summary, Description string
	Parameters           []Parameter // in addition to those in the path
	OK                   []Body      // of the response with status 200
	// Responses replace or add responses, by status.
	Responses map[string]any
	Traits
}

// Traits are the properties that several operations have.
type Traits uint8

const (
	Redirects Traits = 1 << iota // may answer 302
	Quotes                       // may answer 402
	Retries                      // may answer 503 with Retry-After
	Leads                        // leads to the payment: has x-payment
	Charges                      // takes a payment if the offer has a USDC rail
)

// Body is a media type with the name of its schema. JSON without a name is any object. Two
// names, separated by a space, are alternatives.
type Body struct{ Type, Schema string }

// Parameter is a parameter of an operation. In is "query", or "header" for base64 of JSON with the schema Type.
type Parameter struct {
	In, Name, Type, Description string
	Required                    bool
}

// Bodies that several operations have.
var (
	HTML    = Body{Type: "text/html"}
	Plain   = Body{Type: "text/plain"}
	Problem = Body{"application/problem+json", "Problem"}
)

type object = map[string]any

// tagDescriptions describe the groups of operations.
var tagDescriptions = map[string]string{
	"payment":   "Quotes and the checkout.",
	"rails":     "Each way to pay as a URI and a QR code.",
	"receipts":  "Received money.",
	"hooks":     "Webhooks of payment providers.",
	"agents":    "The agent endpoint.",
	"discovery": "Documents that lead to the payment.",
	tagGates:    "What the payment opens.",
}

type openAPI struct {
	OpenAPI      string            `json:"openapi"`
	Info         object            `json:"info"`
	Servers      []object          `json:"servers"`
	ExternalDocs object            `json:"externalDocs"`
	Payment      object            `json:"x-payment"`
	ServiceInfo  object            `json:"x-service-info"`
	Security     []object          `json:"security"`
	Tags         []object          `json:"tags"`
	Paths        map[string]object `json:"paths"`
	Components   object            `json:"components"`
}

// OpenAPI is the OpenAPI 3.1.0 description of the operations, with x-payment
// (docs/developing/decisions.md), and x-service-info and x-payment-info (draft-payment-discovery). HEAD and
// OPTIONS are not described.
func OpenAPI(o *offer.Offer, operations []Operation, schemas Schemas) Document {
	paths, tags := make(map[string]object), make(map[string]bool)
	for _, op := range operations {
		if paths[op.Path] == nil {
			paths[op.Path] = object{}
		}
		paths[op.Path][strings.ToLower(op.Method)], tags[op.Tag] = op.describe(o), true
	}
	describeGates(o, paths, tags)
	described := openAPI{
		OpenAPI: "3.1.0",
		Info: object{
			"title": o.Name, "version": Version, "description": markdown(o.Description), "contact": contact(o),
			"license": object{"name": "Apache License 2.0", "identifier": "Apache-2.0"},
			"x-guidance": "One fixed payment of " + price(o) + ". A person must have authorised it. " +
				"A 402 answer or a 200 invoice is a quote, not a payment.",
		},
		Servers: []object{
			{"url": o.BaseURL, "description": "The service."},
			{"url": o.SiteURL, "description": "The site with the page for people."},
		},
		ExternalDocs: object{"description": unpricedMethod(o, o.Card).Title, "url": o.Card.URL},
		Payment:      payment(o),
		ServiceInfo: object{"categories": []string{"payments"}, "docs": object{
			"homepage": o.SitePage(), "apiReference": o.URL(offer.PathOpenAPI), "llms": o.URL(offer.PathLLMs),
		}},
		Security: []object{}, // every operation is public; a payment is optional
		Paths:    paths,
		Components: object{
			"responses": object{
				"Quote":    Response("The quote. It is not a payment.", Body{typeJSON, "Quote"}),
				"Redirect": withHeader(Response("Leads to another address.", HTML), "Location", "The address."),
				"Later":    withHeader(Response("Send the same request again after Retry-After.", Problem, HTML), "Retry-After", "Seconds to wait."),
				"Problem":  Response("Refused, with what is wrong and what to do (RFC 9457).", Problem, HTML),
			},
			"schemas": schemas.describe(o),
		},
	}
	if len(o.USDC()) > 0 {
		withPayment(described.Components["responses"].(object)["Quote"], "PAYMENT-REQUIRED")
	}
	if o.Challenges() {
		described.Components["securitySchemes"] = object{"mpp": object{"type": "apiKey", "in": "header", "name": o.MPP,
			"description": "The word Payment, a space, and x-credential.", "x-credential": inBase64("base64url", "PaymentCredential")}}
	}
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		described.Tags = append(described.Tags, object{"name": tag, "description": tagDescriptions[tag]})
	}
	return JSON(typeJSON, described)
}

// contact names the operator. Directories verify the owner of an origin by the e-mail address.
func contact(o *offer.Offer) object {
	out := object{"name": o.Operator, "url": o.SiteURL}
	if o.Contact != "" {
		out["email"] = o.Contact
	}
	return out
}

// payment is the card checkout as x-payment.
func payment(o *offer.Offer) object {
	return object{"scheme": offer.SchemeCard, "amountUsd": o.Amount, "url": o.Card.URL}
}

var (
	pathParameter = regexp.MustCompile(`\{(\w+)\}`)
	notInID       = regexp.MustCompile(`[^A-Za-z0-9]`)
)

// describe is the Operation Object.
func (op Operation) describe(o *offer.Offer) object {
	has := func(trait Traits) bool { return op.Traits&trait != 0 }
	method := strings.ToLower(op.Method)
	responses := object{"4XX": refer("responses/Problem")}
	if len(op.OK) > 0 {
		responses["200"] = Response("Success.", op.OK...)
	}
	if has(Redirects) {
		responses["302"] = refer("responses/Redirect")
	}
	if has(Quotes) {
		responses["402"] = refer("responses/Quote")
	}
	if has(Retries) {
		responses["503"] = refer("responses/Later")
	}
	out := object{
		"operationId": method + notInID.ReplaceAllString(op.Path, "_"), "summary": op.Summary, "tags": []string{op.Tag},
		"security": []object{}, "responses": responses,
	}
	if op.Method == http.MethodPost {
		out["requestBody"] = object{"content": content(Body{Type: typeJSON})}
	}
	if has(Leads) {
		out["x-payment"] = payment(o)
	}
	if has(Charges) && len(o.USDC()) > 0 {
		op.charge(o, out, responses)
	}
	maps.Copy(responses, op.Responses)
	if has(Charges) && len(o.USDC()) > 0 {
		paid, refused := []string{"PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE"}, []string{"PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE"}
		if o.Challenges() {
			paid, refused = append(paid, "Payment-Receipt"), append(refused, "WWW-Authenticate")
			out["security"] = []object{{}, {"mpp": []string{}}}
		}
		withPayment(responses["200"], paid...)
		withPayment(responses["402"], refused...)
	}
	var parameters []object
	for _, name := range pathParameter.FindAllStringSubmatch(op.Path, -1) {
		parameters = append(parameters, object{"in": "path", "name": name[1], "required": true, "schema": object{"type": "string"}})
	}
	for _, p := range op.Parameters {
		schema := object{"type": p.Type}
		if p.In == "header" {
			schema = inBase64("base64", p.Type)
		}
		parameters = append(parameters, object{"in": p.In, "name": p.Name, "description": p.Description, "required": p.Required, "schema": schema})
	}
	if len(parameters) > 0 {
		out["parameters"] = parameters
	}
	if op.Description != "" {
		out["description"] = op.Description
	}
	return out
}

// charge adds to the operation that takes the payment how an API client pays. A directory
// lists an operation with x-payment-info as payable.
func (op *Operation) charge(o *offer.Offer, out, responses object) {
	responses["200"] = Response("The payment was settled.", Body{typeJSON, "Settlement"})
	responses["402"] = Response("The quote, or why the payment was refused.", Body{typeJSON, "Quote"})
	responses["429"], responses["503"] = refer("responses/Later"), refer("responses/Later")
	op.Parameters = []Parameter{
		{In: "header", Name: "PAYMENT-SIGNATURE", Type: "PaymentPayload", Description: "The payment by x402 version 2."},
		{In: "header", Name: "X-PAYMENT", Type: "PaymentPayloadV1", Description: "The payment by x402 version 1."},
	}
	op.Description += specifications(o) + "\nWithout a payment header the answer is the quote. After a 503 send the identical payment again, and after a 409 the one " +
		"that it names: a new signature could pay twice."
	info := object{"price": object{"mode": "fixed", "amount": o.Amount.Decimal(), "currency": "USD"}}
	out["x-payment-info"] = info
	protocols := []object{{"x402": object{}}}
	if o.Challenges() {
		op.Description += " A 402 also challenges by the Payment HTTP authentication scheme (MPP), method " + challengeMethod + ", intent " + challengeIntent +
			": answer one challenge in the request header " + o.MPP + "."
		responses["402"] = Response("The quote, or why the payment was refused.", Body{typeJSON, "Quote"}, Problem)
		var offers []object
		for _, u := range o.USDC() {
			offers = append(offers, object{
				"intent": challengeIntent, "method": challengeMethod, "amount": u.AmountAtomic(), "currency": u.Network.USDC, "description": unpricedMethod(o, u).Title,
			})
		}
		info["offers"] = offers
		protocols = append(protocols, object{"mpp": object{"method": challengeMethod, "intent": challengeIntent, "currency": o.USDC()[0].Network.USDC}})
	}
	info["protocols"] = protocols
}

// Names of the Payment scheme for how it is paid here (draft-evm-charge).
const (
	challengeMethod = "evm"
	challengeIntent = "charge"
)

// Response is a Response Object.
func Response(description string, bodies ...Body) object {
	return object{"description": description, "content": content(bodies...)}
}

func content(bodies ...Body) object {
	all := object{}
	for _, body := range bodies {
		var schema any = object{"type": "string"}
		var alternatives []any
		for name := range strings.FieldsSeq(body.Schema) {
			alternatives = append(alternatives, refer("schemas/"+name))
		}
		switch {
		case len(alternatives) > 1:
			schema = object{"oneOf": alternatives}
		case len(alternatives) == 1:
			schema = alternatives[0]
		case body.Type == typeJSON:
			schema = object{"type": "object"}
		}
		all[body.Type] = object{"schema": schema}
	}
	return all
}

func withHeader(response object, name, description string) object {
	response["headers"] = object{name: object{"description": description, "schema": object{"type": "string"}}}
	return response
}

func refer(component string) object { return object{"$ref": "#/components/" + component} }
