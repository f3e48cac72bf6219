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

// describe is the JSON schemas of all types, those of this package included. A type inside
// another one is a reference. No schema is closed, because members may be added.
func (s Schemas) describe(o *offer.Offer) map[string]*jsonschema.Schema {
	types := map[string]any{
		"Invoice": invoice{}, "Method": invoiceMethod{}, "Fallback": offer.Fallback{}, "JRD": descriptor{}, "DIDDocument": did{}, "NodeInfo": nodeInfo{},
		"PackageDocument": packageJSON{}, "AgentCard": agentCard{}, "Linkset": linkset{},
	}
	if len(o.USDC()) > 0 {
		types["X402Resources"] = x402Discovery{}
	}
	maps.Copy(types, s.Types)
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
		complete(schema, name, s.Enums)
		all[name] = schema
	}
	return all
}

// complete adds formats and enums to the schema at path and to all below it.
func complete(s *jsonschema.Schema, path string, enums map[string][]any) {
	if s.Items != nil {
		s.Type, s.Types = "array", nil // no list is null
		complete(s.Items, path, enums)
		return
	}
	s.Format, s.Enum = formats[path[strings.LastIndexByte(path, '.')+1:]], enums[path]
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
		complete(property, path+"."+name, enums)
	}
}
