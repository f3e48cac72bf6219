package document

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Type is a Go type that is served as JSON, under the name of its schema.
type Type struct {
	Name string
	// Value is any value of the type.
	Value any
}

// Served is what an API description says of the answers that are made outside
// of this package.
type Served struct {
	// Types are their bodies.
	Types []Type
	// Words are the only values of a member, by its path, as in
	// "Receipt.status".
	Words map[string][]any
	// Hooks are the rails that take webhooks.
	Hooks []string
}

// facets say of members what their Go types do not: by the name, where it means
// the same wherever it stands, else by the path from the schema's name on.
// Descriptions that stand at one place are tags of the Go type.
var facets = makeFacets()

func makeFacets() map[string]jsonschema.Schema {
	all := map[string]jsonschema.Schema{
		"offer":              {Description: "The offer's id."},
		"card":               {Format: "uri", Description: "The card checkout."},
		"Transition.version": {Minimum: jsonschema.Ptr(1.0)},
		// What is of any type in Go.
		"X402Resources.accepts":       {Type: "array", Items: ref("PaymentRequirements")},
		"X402Resources.items.accepts": {Type: "array", Items: ref("PaymentRequirements")},
	}
	each := func(names string, facet jsonschema.Schema) {
		for name := range strings.FieldsSeq(names) {
			all[name] = facet
		}
	}
	each("url iconUrl uri uriList qr invoice resource resources receiptUrl signedReceiptUrl transactionUrl next href anchor homepage repository documentationUrl subject aliases "+
		"alsoKnownAs serviceEndpoint wellKnown", jsonschema.Schema{Format: "uri"})
	each("at observedAt occurredAt recordedAt validUntil", jsonschema.Schema{Format: "date-time"})
	each("count payments externalPayments unknownUsd lagSeconds", jsonschema.Schema{Minimum: jsonschema.Ptr(0.0)})
	each("amountAtomic refundedAtomic maxAmountRequired PaymentRequirements.amount",
		jsonschema.Schema{Description: "An integer in the asset's smallest units."})
	each("amountUsdDecimal goalUsdDecimal receivedUsdDecimal externalUsdDecimal remainingUsdDecimal testnetUsdDecimal refundedUsdDecimal Transfer.amount",
		jsonschema.Schema{Pattern: `^-?[0-9]+\.[0-9]{2}$`, Description: "US dollars with two decimals."})
	return all
}

// ref refers to a schema of the description.
func ref(schema string) *jsonschema.Schema {
	return &jsonschema.Schema{Ref: "#/components/schemas/" + schema}
}

// goSchemas are the schemas of Go types. Where one of the types holds another
// one, the schema refers to it. None is closed, for members may be added; the
// black-box tests close them, so that no answer says more than its description.
func goSchemas(types []Type, words map[string][]any) object {
	known := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[offer.USD]():       {Type: "number", Description: "US dollars."},
		reflect.TypeFor[offer.EUR]():       {Type: "number", Description: "Euros."},
		reflect.TypeFor[json.RawMessage](): {}, // of another standard
	}
	for _, t := range types {
		known[reflect.TypeOf(t.Value)] = ref(t.Name)
	}
	var schemas object
	for _, t := range types {
		of := reflect.TypeOf(t.Value)
		others := maps.Clone(known)
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
		complete(schema, t.Name, words)
		schemas = append(schemas, member{t.Name, schema})
	}
	return schemas
}

// complete adds to the schema of the member at path, and of all below it, what
// the Go type does not say, and takes away what does not hold of our answers.
func complete(s *jsonschema.Schema, path string, words map[string][]any) {
	if s.Items != nil {
		s.Type, s.Types = "array", nil // no list is ever null
		complete(s.Items, path, words)
		return
	}
	name := path[strings.LastIndexByte(path, '.')+1:]
	add(s, facets[path], facets[name])
	values := words[path]
	if values == nil {
		values = words[name]
	}
	switch {
	case len(values) == 1:
		s.Const = &values[0]
	case values != nil && slices.Contains(s.Types, "null"):
		s.Enum = append(slices.Clip(values), nil)
	default:
		s.Enum = values
	}
	if s.Ref != "" && s.Types != nil {
		s.OneOf, s.Ref, s.Types = []*jsonschema.Schema{{Ref: s.Ref}, {Type: "null"}}, "", nil
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Not != nil {
		s.AdditionalProperties = nil
	}
	for name, property := range s.Properties {
		complete(property, path+"."+name, words)
	}
}

// add adds facets to a schema, which keeps the description that it has.
func add(s *jsonschema.Schema, facets ...jsonschema.Schema) {
	for _, facet := range facets {
		s.Description = cmp.Or(s.Description, facet.Description)
		s.Format, s.Pattern, s.Minimum = cmp.Or(s.Format, facet.Format), cmp.Or(s.Pattern, facet.Pattern), cmp.Or(s.Minimum, facet.Minimum)
		if facet.Items != nil {
			s.Type, s.Items = facet.Type, facet.Items
		}
	}
}

// list is a list of values for Served.Words.
func list[T any](values []T) []any {
	all := make([]any, len(values))
	for i, value := range values {
		all[i] = value
	}
	return all
}
