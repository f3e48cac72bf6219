package document

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestDocumentsCarryTheirMediaType(t *testing.T) {
	want := map[string]string{
		offer.PathHostMeta:     "application/xrd+xml",
		offer.PathHostMetaJSON: "application/jrd+json",
		offer.PathWebFinger:    "application/jrd+json",
		offer.PathDID:          "application/did+json",
		offer.PathNodeInfo:     "application/json",
		offer.PathNodeInfo21:   `application/json; profile="http://nodeinfo.diaspora.software/ns/schema/2.1#"`,
		offer.PathHumans:       "text/plain; charset=utf-8",
		offer.PathSecurity:     "text/plain; charset=utf-8",
		offer.PathPackage:      "application/json",
		offer.PathSkill:        "text/markdown; charset=utf-8",
		offer.PathAgentCard:    "application/json",
		offer.PathOpenAPI:      "application/json",
		offer.PathX402:         "application/json",
		offer.PathLLMs:         "text/plain; charset=utf-8",
		offer.PathAPICatalog:   `application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"`,
	}
	docs := documents(t, fullOffer(t, terms()))
	require.Len(t, docs, len(want))
	for path, d := range docs {
		require.Equal(t, want[path], d.Type, path)
		require.True(t, strings.HasSuffix(string(d.Body), "\n"), path)
		if strings.Contains(d.Type, "json") {
			require.True(t, json.Valid(d.Body), path)
			require.NotContains(t, string(d.Body), `\u0026`, path)
		}
	}
}

func TestDocumentsLeadToTheCardCheckout(t *testing.T) {
	o := fullOffer(t, terms())
	elsewhere := map[string]bool{ // lead there by a path of ours
		offer.PathNodeInfo: true, offer.PathSecurity: true, offer.PathLLMs: true, offer.PathX402: true,
	}
	for path, d := range documents(t, o) {
		body := strings.NewReplacer("&amp;", "&", "&#39;", "'").Replace(string(d.Body))
		require.Equal(t, !elsewhere[path], strings.Contains(body, o.Card.URL), path)
	}
}

func TestUnconfiguredRailsArePublishedNowhere(t *testing.T) {
	o := cardOffer(t, terms())
	docs := documents(t, o)
	docs[offer.PathInvoice] = Invoice(o, offer.Live{Satoshis: 42_000, RateAt: rendered})
	words := []string{
		"usdc", "x402", "btc", "bitcoin", "bip21", "eip681", "eip155", "ethereum", "mailto", "transfer", "storefront",
		"tip-jar", "settlement", "spending cap", "exchange rate",
	}
	for path, d := range docs {
		for _, word := range words {
			require.False(t, strings.Contains(strings.ToLower(string(d.Body)), word), "%s holds %q", path, word)
		}
	}
}

// Fixed documents are rendered once, so an amount or address of the day in
// them would become wrong.
func TestFixedDocumentsHoldNoBitcoinAddress(t *testing.T) {
	o := fullOffer(t, terms())
	for path, d := range documents(t, o) {
		require.NotContains(t, string(d.Body), btcAddress, path)
		require.NotContains(t, string(d.Body), "?amount=", path)
	}
	for _, path := range []string{offer.PathHumans, offer.PathSkill, offer.PathLLMs, offer.PathHostMeta, offer.PathDID} {
		require.Contains(t, string(documents(t, o)[path].Body), "https://pay.example.org/v1/pay/btc.uri", path)
	}
}

func TestAnotherAmountReplaces42(t *testing.T) {
	other := terms()
	other.Amount = 7_50
	for path, d := range documents(t, fullOffer(t, other)) {
		body := strings.NewReplacer(
			ToolName, "", skillID, "", "Example 42", "", "Example%2042", "", "co+42", "", "co%2B42", "", "429", "",
		).Replace(string(d.Body))
		require.False(t, strings.Contains(body, "42"), path)
	}
}

func TestInvoiceListsEveryMethod(t *testing.T) {
	o := fullOffer(t, terms())
	got := decode(t, Invoice(o, offer.Live{Satoshis: 42_001, RateAt: rendered}))
	require.Equal(t, "pay.example.org", got["id"])
	require.EqualValues(t, 42, got["amountUsd"])
	require.Equal(t, "USD", got["currency"])
	require.Equal(t, "One fixed payment.", got["description"])
	require.Equal(t, o.Card.URL, got["card"])

	var seen []string
	for _, m := range got["methods"].([]any) {
		m := m.(map[string]any)
		rail, scheme := m["rail"].(string), m["scheme"].(string)
		seen = append(seen, rail+" "+scheme)
		require.EqualValues(t, 42, m["amountUsd"])
		require.Equal(t, true, m["available"])
		if scheme == "x402" { // the rail's second method
			require.Equal(t, "https://pay.example.org/v1/sponsor", m["url"])
			require.NotContains(t, m, "uriList")
			require.NotContains(t, m, "qr")
			continue
		}
		require.Equal(t, "https://pay.example.org/v1/pay/"+rail+".uri", m["uriList"])
		require.Equal(t, "https://pay.example.org/v1/pay/"+rail+".png", m["qr"])
	}
	require.Equal(t, []string{
		"card stripe", "usdc eip681", "usdc x402", "usdc-10 eip681", "usdc-10 x402",
		"btc bip21", "transfer transfer", "tip-jar storefront", "pack storefront",
	}, seen)

	bitcoin, err := url.Parse(at(t, got, "methods", 5, "uri").(string))
	require.NoError(t, err)
	require.Equal(t, btcAddress, bitcoin.Opaque)
	require.Equal(t, "0.00042001", bitcoin.Query().Get("amount"))
}

func TestInvoiceSaysWhyAMethodIsNotAvailable(t *testing.T) {
	bitcoin := at(t, decode(t, Invoice(fullOffer(t, terms()), offer.Live{})), "methods", 5)
	require.Equal(t, false, at(t, bitcoin, "available"))
	require.NotEmpty(t, at(t, bitcoin, "reason"))
	require.NotContains(t, bitcoin, "uri")
	require.NotContains(t, bitcoin, "amountAtomic")
}
