package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// offers are the smallest offer and one with every rail and texts that need escaping.
func offers(t *testing.T) map[string]*offer.Offer {
	t.Helper()
	const amount offer.USD = 42_00
	terms := offer.Terms{
		ID: "pay.example.org", BaseURL: "https://pay.example.org:8443", SiteURL: "https://www.example.org",
		Name: `Offer "42" <b>&`, Operator: "Org: #1 */", Description: "One `fixed` *payment*.",
		SourceURL: "https://code.example.net/offer", Account: "pay", Amount: amount, Updated: "2026-11-21",
	}
	card, err := offer.NewCard("https://checkout.example/pay?a=1&b=2", nil, amount)
	require.NoError(t, err)
	network, err := offer.LookupNetwork("base")
	require.NoError(t, err)
	usdc, err := offer.NewUSDC("usdc", network, "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", amount)
	require.NoError(t, err)
	btc, err := offer.NewBitcoin("bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq", terms.Name, amount)
	require.NoError(t, err)
	transfer, err := offer.NewTransfer("transfer", "bank@example.org", "Example 42", terms.Operator, amount)
	require.NoError(t, err)
	shop, err := offer.NewStorefront("tip-jar", "https://shop.example/jar", amount)
	require.NoError(t, err)

	small, err := offer.New(terms, card)
	require.NoError(t, err)
	full, err := offer.New(terms, card, usdc, btc, transfer, shop)
	require.NoError(t, err)
	return map[string]*offer.Offer{"card alone": small, "every rail": full}
}

// publishedSchema compiles a schema of caddy/e2e/testdata/schemas.
func publishedSchema(t *testing.T, file, definition string) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("testdata/schemas/" + file)
	require.NoError(t, err)
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("https://schemas.example/"+file, parsed))
	schema, err := compiler.Compile("https://schemas.example/" + file + definition)
	require.NoError(t, err)
	return schema
}

func TestDocumentsFollowTheirPublishedSchemas(t *testing.T) {
	for name, c := range map[string]struct {
		file, definition string
		render           func(*offer.Offer) document.Document
		// broken is a member without which the document must be refused.
		broken string
	}{
		"NodeInfo 2.1":         {"nodeinfo-2.1.schema.json", "", document.NodeInfo, "protocols"},
		"A2A 0.3.0 agent card": {"a2a-0.3.0.schema.json", "#/definitions/AgentCard", document.AgentCard, "skills"},
	} {
		t.Run(name, func(t *testing.T) {
			schema := publishedSchema(t, c.file, c.definition)
			for kind, o := range offers(t) {
				var doc map[string]any
				require.NoError(t, json.Unmarshal(c.render(o).Body, &doc))
				require.NoError(t, schema.Validate(doc), kind)
				delete(doc, c.broken)
				require.Error(t, schema.Validate(doc), "the schema checks nothing")
			}
		})
	}
}
