package document

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenAPIInfoIsTheSpecifiedOne(t *testing.T) {
	withContact := terms()
	withContact.Contact = "help@example.org"
	o := fullOffer(t, withContact)
	doc := decode(t, api(o))
	require.Equal(t, "3.1.0", doc["openapi"])
	require.Equal(t, map[string]any{"name": "Example Org", "url": "https://www.example.org", "email": "help@example.org"}, at(t, doc, "info", "contact"))
	require.NotContains(t, at(t, decode(t, api(fullOffer(t, terms()))), "info", "contact"), "email")
	for _, c := range []struct {
		want any
		path []any
	}{
		{"0.2.0", []any{"info", "version"}}, {"Example Offer", []any{"info", "title"}}, {"One fixed payment.", []any{"info", "description"}},
		{"https://pay.example.org", []any{"servers", 0, "url"}}, {"https://www.example.org", []any{"servers", 1, "url"}},
		{o.Card.URL, []any{"externalDocs", "url"}}, {[]any{}, []any{"security"}},
		{"https://pay.example.org/openapi.json", []any{"x-service-info", "docs", "apiReference"}},
		{map[string]any{"scheme": "stripe", "amountUsd": 42.0, "url": o.Card.URL}, []any{"x-payment"}},
	} {
		require.Equal(t, c.want, at(t, doc, c.path...), c.path)
	}
}

func TestOpenAPIDescribesAnOperation(t *testing.T) {
	doc := decode(t, api(fullOffer(t, terms())))
	op := at(t, doc, "paths", "/v1/received/{id}", "get")
	require.Equal(t, "get_v1_received__id_", at(t, op, "operationId"))
	require.Equal(t, []any{map[string]any{"$ref": "#/components/schemas/Received"}, map[string]any{"$ref": "#/components/schemas/Feed"}},
		at(t, op, "responses", "200", "content", "application/json", "schema", "oneOf"))
	require.Equal(t, "path", at(t, op, "parameters", 0, "in"))
	require.Equal(t, true, at(t, op, "parameters", 0, "required"))
	require.Equal(t, "after", at(t, op, "parameters", 1, "name"))
	require.Equal(t, "#/components/responses/Problem", at(t, op, "responses", "4XX", "$ref"))
	require.Equal(t, "#/components/responses/Later", at(t, op, "responses", "503", "$ref"))
	require.NotContains(t, op, "x-payment")
	require.Equal(t, []any{"one"}, at(t, doc, "components", "schemas", "Received", "properties", "any", "enum"))
}

// Every entry of x-payment-info has a challenge at run time: each chain of an offer that
// challenges, and never the card.
func TestOpenAPIOffersWhatIsChallenged(t *testing.T) {
	for field, challenges := range map[string]bool{"Authorization": true, "Payment-Authorization": true, "": false} {
		chosen := terms()
		chosen.MPP = field
		o := fullOffer(t, chosen)
		operation := at(t, decode(t, api(o)), "paths", "/v1/sponsor", "post").(map[string]any)
		require.Contains(t, operation, "x-payment")
		at(t, operation, "requestBody", "content", "application/json", "schema")
		at(t, operation, "responses", "200", "content", "application/json")
		info := operation["x-payment-info"].(map[string]any)
		require.Equal(t, map[string]any{"mode": "fixed", "amount": "42.00", "currency": "USD"}, info["price"])
		protocols := []any{map[string]any{"x402": map[string]any{}}}
		if !challenges {
			require.NotContains(t, info, "offers")
			require.Equal(t, protocols, info["protocols"])
			continue
		}
		var offers []any
		for _, u := range o.USDC() {
			offers = append(offers, map[string]any{
				"intent": "charge", "method": "evm", "amount": "42000000", "currency": u.Network.USDC, "description": fixed(o, u).Title,
			})
		}
		require.Equal(t, offers, info["offers"])
		require.Equal(t, append(protocols, map[string]any{"mpp": map[string]any{
			"method": "evm", "intent": "charge", "currency": o.USDC()[0].Network.USDC,
		}}), info["protocols"])
		require.Contains(t, operation["description"], "in the request header "+field+".")
		at(t, operation, "responses", "402", "content", "application/problem+json")
	}
	card := at(t, decode(t, api(cardOffer(t, terms()))), "paths", "/v1/sponsor", "post")
	require.NotContains(t, card, "x-payment-info", "directories list the operation as payable")
	require.NotContains(t, card, "parameters")
}
