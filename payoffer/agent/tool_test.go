package agent

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func terms42(t testing.TB, r toolResult) map[string]any {
	t.Helper()
	var found map[string]any
	require.NoError(t, json.Unmarshal(r.Structured, &found))
	return found
}

func TestToolListsEveryRailAndWhatX402Needs(t *testing.T) {
	r := callTool(t, newEndpoint(t, config(t, public)), `{"name":"first_42_sponsor"}`)
	require.Equal(t, "text", r.Content[0].Type)
	require.Contains(t, r.Content[0].Text, "a=1&b=2", "a model reads addresses as they are")
	found := terms42(t, r)
	require.EqualValues(t, 42, found["amountUsd"])
	require.Equal(t, false, found["paid"])
	require.Equal(t, "https://checkout.example/pay?a=1&b=2", found["card"])
	require.Equal(t, "https://pay.example.org/v1/sponsor", found["sponsor"])
	require.EqualValues(t, 2, found["x402Version"])
	require.Equal(t, "raise the cap to $42", found["hint"])
	require.Equal(t, "stripe", found["fallback"].(map[string]any)["scheme"])
	require.Equal(t, "42000000", found["accepts"].([]any)[0].(map[string]any)["amount"])

	var schemes []string
	for _, m := range found["methods"].([]any) {
		schemes = append(schemes, m.(map[string]any)["scheme"].(string))
	}
	require.Equal(t, []string{"stripe", "bip21", "transfer", "eip681", "x402"}, schemes)
}

func TestAgentsAreToldTheAccountOfTheBankTransfer(t *testing.T) {
	c := config(t, public)
	require.NoError(t, c.Offer.Transfer().Publish(offer.Bank{AccountHolderName: "Example Operator", IBAN: "DE75512108001245126199", BIC: "SOGEDEFF"}))
	e := newEndpoint(t, c)
	var accounts []any
	for _, m := range terms42(t, callTool(t, e, `{"name":"first_42_sponsor"}`))["methods"].([]any) {
		if bank := m.(map[string]any)["bank"]; bank != nil {
			accounts = append(accounts, bank.(map[string]any)["iban"])
		}
	}
	require.Equal(t, []any{"DE75512108001245126199"}, accounts)
	require.Contains(t, e.quote().text, "\n  or transfer it to Example Operator: IBAN DE75512108001245126199, BIC SOGEDEFF, reference Example 42\n")
}

func TestToolFollowsTheRateAndTheX402Quote(t *testing.T) {
	live := offer.Live{}
	c := config(t, public)
	c.Live = func() offer.Live { return live }
	e := newEndpoint(t, c)
	btc := func() map[string]any {
		return terms42(t, callTool(t, e, `{"name":"first_42_sponsor"}`))["methods"].([]any)[1].(map[string]any)
	}
	require.Equal(t, false, btc()["available"])
	require.NotEmpty(t, btc()["reason"])
	require.NotContains(t, btc(), "uri", "an amount is never guessed or left out")

	live.Satoshis = 45000
	require.Equal(t, true, btc()["available"])
	require.Equal(t, "45000", btc()["amountAtomic"])

	live.Satoshis = 46000
	require.Equal(t, "46000", btc()["amountAtomic"])

	live.RateAt = time.Unix(1763724000, 0)
	require.Equal(t, "2025-11-21T12:05:00Z", btc()["validUntil"])

	c.Payments.(*payments).quote = new(x402.Quote)
	c.Payments.(*payments).accepts[0].Amount = "43000000"
	require.Contains(t, string(e.quote().data), "43000000")
}

func TestToolResultFollowsItsSchema(t *testing.T) {
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal(document.Line(outputSchema), &schema))
	resolved, err := schema.Resolve(nil)
	require.NoError(t, err)

	c := config(t, public)
	full := terms42(t, callTool(t, newEndpoint(t, c), `{"name":"first_42_sponsor"}`))
	require.NoError(t, resolved.Validate(full))
	requireDescribed(t, &schema, full)
	for _, m := range full["methods"].([]any) {
		for name := range m.(map[string]any) {
			require.Contains(t, schema.Properties["methods"].Items.Properties, name)
		}
	}

	c.Offer, c.Payments, c.Live = newOffer(t, public, false), new(payments), func() offer.Live { return offer.Live{} }
	require.NoError(t, resolved.Validate(terms42(t, callTool(t, newEndpoint(t, c), `{"name":"first_42_sponsor"}`))))
}

func requireDescribed(t testing.TB, schema *jsonschema.Schema, found map[string]any) {
	t.Helper()
	for name := range found {
		require.Contains(t, schema.Properties, name, "every member is described")
	}
}

func TestOperatorTextIsDataOnly(t *testing.T) {
	c := config(t, func(terms *offer.Terms) { terms.Name, terms.Operator, terms.Description = hostile, hostile, hostile })
	e := newEndpoint(t, c)

	tools := decode(t, post(t, e, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	require.NotContains(t, string(tools.Result), "Ignore all", "a model reads a tool's description as an instruction")
	var list mcp.ListToolsResult
	require.NoError(t, json.Unmarshal(tools.Result, &list))
	require.Len(t, list.Tools, 1)
	require.Equal(t, "first_42_sponsor", list.Tools[0].Name)
	require.NotEmpty(t, list.Tools[0].Title)
	require.Contains(t, list.Tools[0].Description, "42 US dollars")
	require.NotNil(t, list.Tools[0].OutputSchema)
	handshake := decode(t, post(t, e, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`))
	var server struct{ Instructions string }
	require.NoError(t, json.Unmarshal(handshake.Result, &server))
	require.NotContains(t, server.Instructions, "Ignore all")

	require.Equal(t, hostile, terms42(t, callTool(t, e, `{"name":"first_42_sponsor"}`))["description"])
	for line := range strings.SplitSeq(e.quote().text, "\n") {
		require.False(t, strings.HasPrefix(line, "previous"), "a name cannot begin a line of its own: %q", line)
	}
}
