package web

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// schema is as much of a JSON schema as the tests look at.
type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any
	Enum, Required       []any
	Format               string
	Description          string
	OneOf                []schema
	Items                *schema
	Properties           map[string]schema
	AdditionalProperties any
}

// schemas are those of an offer's description.
func schemas(t *testing.T, o *offer.Offer, hooks ...string) map[string]schema {
	t.Helper()
	var api struct {
		Components struct{ Schemas map[string]schema }
	}
	require.NoError(t, json.Unmarshal(OpenAPI(o, hooks...).Body, &api))
	return api.Components.Schemas
}

func TestSchemasSayWhatGoTypesCannot(t *testing.T) {
	all := schemas(t, makeOffer(t, terms(), "base"), "card")
	receipt, rail, report := all["Receipt"], all["RailReport"], all["Received"]

	require.Equal(t, "number", report.Properties["goalUsd"].Type, "an amount is a number, not the cents of the Go type")
	require.Equal(t, "date-time", receipt.Properties["occurredAt"].Format)
	require.Equal(t, []any{"seen", "confirmed", "dropped", "refunded", "reversed", "moved"}, receipt.Properties["status"].Enum)
	require.Contains(t, rail.Properties["state"].Enum, "manual")
	require.Equal(t, "uri", all["Method"].Properties["url"].Format)

	// What may be null says so, also where its values are listed.
	require.ElementsMatch(t, []any{"string", "null"}, receipt.Properties["amountUsdDecimal"].Type)
	require.Contains(t, rail.Properties["lastError"].Enum, nil)
	require.Equal(t, []schema{{Ref: "#/components/schemas/Sum"}, {Type: "null"}}, rail.Properties["seen"].OneOf)
	require.NotEmpty(t, rail.Properties["seen"].Description)
	require.Equal(t, "array", report.Properties["receipts"].Type)

	require.ElementsMatch(t, []any{"boolean", "null"}, report.Properties["goalMet"].Type)
	require.ElementsMatch(t, []any{"number", "null"}, rail.Properties["receivedUsd"].Type)
	require.Equal(t, &schema{Ref: "#/components/schemas/CurrencySum"}, all["Sum"].Properties["currencies"].Items)
	require.Equal(t, []any{"face", "quote", "rate", "stated"}, receipt.Properties["valueBasis"].Enum)

	require.NotContains(t, receipt.Required, "via")
	require.Contains(t, receipt.Required, "amountUsd")
	for name, s := range all {
		require.NotEmpty(t, s.Properties, name)
		require.Nil(t, s.AdditionalProperties, "%s is closed, but members may be added", name)
	}
}

// An offer that no program can pay says nothing of how one would.
func TestTheDescriptionOfACardAloneSpeaksOfNoOtherRail(t *testing.T) {
	card := must(offer.NewCard(checkout, nil, 42_00))(t)
	o := must(offer.New(terms(), card))(t)
	text := strings.ToLower(string(OpenAPI(o).Body))
	for _, word := range []string{
		"usdc", "x402", "btc", "bitcoin", "bip21", "eip681", "eip155", "ethereum", "mailto", "transfer", "storefront",
		"tip-jar", "spending cap", "exchange rate",
	} {
		require.NotContains(t, text, word)
	}
	require.Equal(t, []any{"error", "fallback"}, schemas(t, o)["Quote"].Required)
	require.Equal(t, []any{"x402Version", "error", "fallback", "accepts", "hint"}, schemas(t, makeOffer(t, terms(), "base"))["Quote"].Required)
}
