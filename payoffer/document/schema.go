package document

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Schemas are the JSON bodies that package web serves.
type Schemas struct {
	// Types are any values of the Go types, by the schema's name.
	Types map[string]any
	// Enums are the values of members, by path, such as "Receipt.status".
	Enums map[string][]any
}

// formats are the formats of the members with these names.
var formats = func() map[string]string {
	all := make(map[string]string)
	for name := range strings.FieldsSeq("url iconUrl uri uriList qr invoice resource resources receiptUrl signedReceiptUrl transactionUrl next href anchor " +
		"homepage repository documentationUrl subject aliases alsoKnownAs serviceEndpoint wellKnown card") {
		all[name] = "uri"
	}
	for _, name := range []string{"at", "observedAt", "occurredAt", "recordedAt", "validUntil"} {
		all[name] = "date-time"
	}
	return all
}()

// patterns are the forms of the members with these paths.
var patterns = map[string]string{
	"ExactPayload.signature": "^0x([0-9a-fA-F]{2})+$", "ExactPayload.authorization.nonce": "^0x[0-9a-fA-F]{64}$",
	"ExactPayload.authorization.from": "^0x[0-9a-fA-F]{40}$", "ExactPayload.authorization.to": "^0x[0-9a-fA-F]{40}$",
	"ExactPayload.authorization.value": "^(0|[1-9][0-9]*)$", "ExactPayload.authorization.validAfter": "^(0|[1-9][0-9]*)$",
	"ExactPayload.authorization.validBefore": "^(0|[1-9][0-9]*)$",
}

// describe is the JSON schemas of all types, those of this package included. A type inside
// another one is a reference. No schema is closed, because members may be added.
func (sc Schemas) describe(o *offer.Offer) map[string]*jsonschema.Schema {
	types := map[string]any{
		"Invoice": invoice{}, "Method": invoiceMethod{}, "Fallback": offer.Fallback{}, "JRD": descriptor{}, "DIDDocument": did{}, "NodeInfo": nodeInfo{},
		"PackageDocument": packageJSON{}, "AgentCard": agentCard{}, "Linkset": linkset{},
	}
	if len(o.USDC()) > 0 {
		types["X402Resources"] = x402Discovery{}
	}
	maps.Copy(types, sc.Types)
	known := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[offer.USD]():       {Type: "number", Description: "US dollars."},
		reflect.TypeFor[offer.EUR]():       {Type: "number", Description: "Euros."},
		reflect.TypeFor[json.RawMessage](): {}, // of another standard
	}
	for name, value := range types {
		known[reflect.TypeOf(value)] = &jsonschema.Schema{Ref: "#/components/schemas/" + name}
	}
	all := make(map[string]*jsonschema.Schema)
	for name, value := range types {
		of, others := reflect.TypeOf(value), maps.Clone(known)
		delete(others, of)
		for i := range of.NumField() {
			if of.Field(i).Anonymous { // its members are those of the type
				delete(others, of.Field(i).Type)
			}
		}
		schema, err := jsonschema.ForType(of, &jsonschema.ForOptions{TypeSchemas: others})
		if err != nil {
			panic("document: " + err.Error()) // the types are those of this module
		}
		sc.complete(schema, name)
		all[name] = schema
	}
	return all
}

// complete adds formats, enums and patterns to the schema at path and to all below it.
func (sc Schemas) complete(s *jsonschema.Schema, path string) {
	if s.Items != nil {
		s.Type, s.Types = "array", nil // no list is null
		sc.complete(s.Items, path)
		return
	}
	s.Format, s.Enum, s.Pattern = formats[path[strings.LastIndexByte(path, '.')+1:]], sc.Enums[path], patterns[path]
	if s.Enum != nil && slices.Contains(s.Types, "null") {
		s.Enum = append(slices.Clip(s.Enum), nil)
	}
	if s.Ref != "" && s.Types != nil {
		s.OneOf, s.Ref, s.Types = []*jsonschema.Schema{{Ref: s.Ref}, {Type: "null"}}, "", nil
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Not != nil {
		s.AdditionalProperties = nil
	}
	for name, property := range s.Properties {
		sc.complete(property, path+"."+name)
	}
}
