package document

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func TestDocumentMediaTypes(t *testing.T) {
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

func TestDocumentsLinkToCardCheckout(t *testing.T) {
	o := fullOffer(t, terms())
	elsewhere := map[string]bool{ // lead there by a path of ours
		offer.PathNodeInfo: true, offer.PathSecurity: true, offer.PathLLMs: true, offer.PathX402: true,
	}
	for path, d := range documents(t, o) {
		body := strings.NewReplacer("&amp;", "&", "&#39;", "'").Replace(string(d.Body))
		require.Equal(t, !elsewhere[path], strings.Contains(body, o.Card.URL), path)
	}
}

func TestUnconfiguredRailsAreNotPublished(t *testing.T) {
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
func TestDocumentsHaveNoBitcoinAddress(t *testing.T) {
	o := fullOffer(t, terms())
	for path, d := range documents(t, o) {
		require.NotContains(t, string(d.Body), payoffertest.Bitcoin, path)
		require.NotContains(t, string(d.Body), "?amount=", path)
	}
	for _, path := range []string{offer.PathHumans, offer.PathSkill, offer.PathLLMs, offer.PathHostMeta, offer.PathDID} {
		require.Contains(t, string(documents(t, o)[path].Body), "https://pay.example.org/v1/pay/btc.uri", path)
	}
}

func TestDocumentsUseConfiguredAmount(t *testing.T) {
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
	var want []string
	for _, m := range o.Methods(offer.Live{}) {
		want = append(want, m.Rail+" "+m.Scheme)
	}
	require.Equal(t, want, seen)

	bitcoin, err := url.Parse(at(t, methodOf(t, got, "btc"), "uri").(string))
	require.NoError(t, err)
	require.Equal(t, payoffertest.Bitcoin, bitcoin.Opaque)
	require.Equal(t, "0.00042001", bitcoin.Query().Get("amount"))
}

func TestInvoiceExplainsUnavailableMethod(t *testing.T) {
	bitcoin := methodOf(t, decode(t, Invoice(fullOffer(t, terms()), offer.Live{})), "btc")
	require.Equal(t, false, at(t, bitcoin, "available"))
	require.NotEmpty(t, at(t, bitcoin, "reason"))
	require.NotContains(t, bitcoin, "uri")
	require.NotContains(t, bitcoin, "amountAtomic")
}

// methodOf is the first method of a rail in an invoice.
func methodOf(t *testing.T, invoice map[string]any, rail string) any {
	t.Helper()
	methods := invoice["methods"].([]any)
	i := slices.IndexFunc(methods, func(m any) bool { return m.(map[string]any)["rail"] == rail })
	require.GreaterOrEqual(t, i, 0, "the invoice has no rail %q", rail)
	return methods[i]
}

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
	o := payoffertest.Offer(t, terms, "base", "optimism")
	o.BankTransfer().Inbox = "bank&co+42@example.org"
	return o
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

// gated adds a gate on the offer's host, one on another host, and one whose path is taken there.
func gated(o *offer.Offer) *offer.Offer {
	o.Gates = []offer.Gate{
		{Start: "https://pay.example.org/members/", Access: 30 * 24 * time.Hour},
		{Start: "https://shop.example/a_(b)?c=<d>", Access: 36 * time.Hour},
		{Start: "https://shop.example/members/", Access: 90 * time.Minute},
	}
	return o
}

func TestOpenAPIDescribesGates(t *testing.T) {
	o := gated(fullOffer(t, terms()))
	doc := decode(t, api(o))
	own, other := at(t, doc, "paths", "/members/"), at(t, doc, "paths", "/a_(b)")
	require.NotContains(t, own, "servers")
	require.Equal(t, "https://shop.example", at(t, other, "servers", 0, "url"))
	sponsor := at(t, doc, "paths", offer.PathSponsor, "post")
	for _, item := range []any{own, other} {
		require.NotContains(t, item, "post")
		for _, member := range []string{"x-payment-info", "x-payment", "parameters", "security"} {
			require.Equal(t, at(t, sponsor, member), at(t, item, "get", member))
		}
		require.Equal(t, map[string]any{"*/*": map[string]any{}}, at(t, item, "get", "responses", "200", "content"))
		at(t, item, "get", "responses", "402", "content", "text/html")
	}
	require.Equal(t, "Opened by the payment: 30-day access", at(t, own, "get", "summary"), "a taken path is left out")
	require.Equal(t, "gate_members_2f", at(t, own, "get", "operationId"))
	require.Contains(t, at(t, doc, "tags"), map[string]any{"name": "gates", "description": "What the payment opens."})

	card := at(t, decode(t, api(gated(cardOffer(t, terms())))), "paths", "/members/", "get")
	require.Contains(t, card, "x-payment")
	require.NotContains(t, card, "x-payment-info", "no program can pay it")
}

// A service's own route is answered before any gate.
func TestOpenAPIKeepsServiceRoutes(t *testing.T) {
	o := fullOffer(t, terms())
	want := at(t, decode(t, api(o)), "paths")
	o.Gates = []offer.Gate{{Start: "https://shop.example/v1/sponsor", Access: time.Hour}}
	doc := decode(t, api(o))
	require.Equal(t, want, at(t, doc, "paths"))
	require.NotContains(t, string(api(o).Body), `"gates"`)
}

func TestGateOperationIDsAreUnique(t *testing.T) {
	o := fullOffer(t, terms())
	starts := []string{"/", "/a/b", "/a-b", "/a_b", "/a.b", "/a%2Fb", "/{a}/é", "/a_2fb"}
	for _, start := range starts {
		o.Gates = append(o.Gates, offer.Gate{Start: o.BaseURL + start, Access: time.Hour})
	}
	names := make(map[any]bool)
	for path, item := range at(t, decode(t, api(o)), "paths").(map[string]any) {
		if get, found := item.(map[string]any)["get"]; found {
			require.Regexp(t, `^\w+$`, at(t, get, "operationId"), path)
			names[at(t, get, "operationId")] = true
		}
	}
	require.Len(t, names, len(starts)+1)
}

func TestX402ListsGates(t *testing.T) {
	o := gated(fullOffer(t, terms()))
	doc := decode(t, X402(o, []string{}))
	want := []any{
		"https://pay.example.org/v1/sponsor", "https://pay.example.org/members/",
		"https://shop.example/a_(b)", "https://shop.example/members/",
	}
	require.Equal(t, want, doc["resources"])
	for i, item := range doc["items"].([]any) {
		require.Equal(t, want[i], at(t, item, "resource", "url"))
		require.Equal(t, at(t, doc, "accepts"), at(t, item, "accepts"))
		method := "GET"
		if i == 0 {
			method = "POST"
		} else {
			require.NotContains(t, at(t, item, "resource"), "mimeType")
		}
		require.Equal(t, method, at(t, item, "input", "method"))
	}
}

func TestLLMsAndSkillListGates(t *testing.T) {
	for _, o := range []*offer.Offer{gated(fullOffer(t, terms())), gated(cardOffer(t, terms()))} {
		for _, document := range []Document{LLMs(o), Skill(o)} {
			body := string(document.Body)
			require.Contains(t, body, "](https://pay.example.org/members/): 30-day access\n")
			require.Contains(t, body, "](https://shop.example/a_%28b%29?c=%3Cd%3E): 36-hour access\n")
			require.Contains(t, body, "](https://shop.example/members/): 90-minute access\n")
		}
		require.Equal(t, len(o.USDC()) > 0, strings.Contains(string(Skill(o).Body), "send the same payment header again"))
	}
	plain := fullOffer(t, terms())
	require.NotRegexp(t, "(?i)opened by|opens", string(LLMs(plain).Body)+string(Skill(plain).Body))
}

func TestAgentCardListsGates(t *testing.T) {
	got := decode(t, AgentCard(gated(fullOffer(t, terms()))))
	want := decode(t, AgentCard(fullOffer(t, terms())))
	examples := at(t, got, "skills", 0, "examples").([]any)
	require.Len(t, examples, len(at(t, want, "skills", 0, "examples").([]any))+3)
	require.Contains(t, examples, "How can I open https://shop.example/members/?")
	at(t, want, "skills", 0).(map[string]any)["examples"] = examples
	require.Equal(t, want, got, "nothing else changes")
}
