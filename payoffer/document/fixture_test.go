package document

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	payTo      = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
	btcAddress = "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"
)

// rendered is when the documents of the tests are rendered.
var rendered = time.Date(2026, 11, 21, 13, 14, 15, 0, time.UTC)

func terms() offer.Terms {
	return offer.Terms{
		ID: "pay.example.org", BaseURL: "https://pay.example.org", SiteURL: "https://www.example.org",
		Name: "Example Offer", Operator: "Example Org", Description: "One fixed payment.",
		SourceURL: "https://code.example.net/offer", Account: "pay", Amount: 42_00, Updated: "2026-11-21",
		MPP: "Authorization",
	}
}

// cardOffer is an offer with the required rail alone.
func cardOffer(t *testing.T, terms offer.Terms, rails ...offer.Rail) *offer.Offer {
	t.Helper()
	card, err := offer.NewCard("https://checkout.example/pay?a=1&b='2'", nil, terms.Amount)
	require.NoError(t, err)
	o, err := offer.New(terms, card, rails...)
	require.NoError(t, err)
	return o
}

// fullOffer is an offer with every rail, two of some.
func fullOffer(t *testing.T, terms offer.Terms) *offer.Offer {
	t.Helper()
	usdc := func(name, network string) offer.Rail {
		n, err := offer.LookupNetwork(network)
		require.NoError(t, err)
		rail, err := offer.NewUSDC(name, n, payTo, terms.Amount)
		require.NoError(t, err)
		return rail
	}
	shop := func(name string) offer.Rail {
		rail, err := offer.NewStorefront(name, "https://shop.example/"+name, terms.Amount)
		require.NoError(t, err)
		return rail
	}
	btc, err := offer.NewBitcoin(btcAddress, terms.Name, terms.Amount)
	require.NoError(t, err)
	transfer, err := offer.NewTransfer("transfer", "bank&co+42@example.org", "Example 42", terms.Operator, terms.Amount)
	require.NoError(t, err)
	return cardOffer(t, terms, usdc("usdc", "base"), usdc("usdc-10", "optimism"), btc, transfer, shop("tip-jar"), shop("pack"))
}

// api is the description of two operations with the bodies that package web serves.
func api(o *offer.Offer) Document {
	body := struct {
		Any string `json:"any"`
	}{}
	types := map[string]any{"Quote": body, "Problem": body, "Received": body, "Feed": body}
	if len(o.USDC()) > 0 {
		types["Settlement"] = body
	}
	return OpenAPI(o, []Operation{
		{Method: "POST", Path: offer.PathSponsor, Tag: "payment", Summary: "Pay", Traits: Quotes | Leads | Charges},
		{Method: "GET", Path: offer.PathReceived + "/{id}", Tag: "receipts", Summary: "Receipts", OK: []Body{{typeJSON, "Received Feed"}, HTML},
			Parameters: []Parameter{{In: "query", Name: "after", Type: "string"}}, Traits: Retries},
	}, Schemas{Types: types, Enums: map[string][]any{"Received.any": {"one"}}})
}

// documents are all fixed documents that an offer publishes, by path.
func documents(t *testing.T, o *offer.Offer) map[string]Document {
	t.Helper()
	finger, err := WebFinger(o, o.Acct(), nil)
	require.NoError(t, err)
	all := map[string]Document{
		offer.PathHostMeta: HostMetaXRD(o), offer.PathHostMetaJSON: HostMetaJSON(o), offer.PathWebFinger: finger,
		offer.PathDID: DID(o), offer.PathNodeInfo: NodeInfoIndex(o), offer.PathNodeInfo21: NodeInfo(o),
		offer.PathHumans: Humans(o), offer.PathSecurity: Security(o, rendered), offer.PathPackage: Package(o),
		offer.PathSkill: Skill(o), offer.PathAgentCard: AgentCard(o), offer.PathOpenAPI: api(o),
		offer.PathLLMs: LLMs(o), offer.PathAPICatalog: APICatalog(o),
	}
	if len(o.USDC()) > 0 {
		all[offer.PathX402] = X402(o, []map[string]string{{"scheme": "exact"}})
	}
	return all
}

// decode reads a JSON document.
func decode(t *testing.T, d Document) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, json.Unmarshal(d.Body, &out), "%s", d.Body)
	return out
}

// at follows member names and indices into a decoded document.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, ok := v.(map[string]any)
			require.True(t, ok, "%q: not an object", step)
			require.Contains(t, m, step)
			v = m[step]
		case int:
			list, ok := v.([]any)
			require.True(t, ok && step < len(list), "[%d]: not there", step)
			v = list[step]
		}
	}
	return v
}
