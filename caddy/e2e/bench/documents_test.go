package bench

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/prices"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// site is an offer with every kind of rail, none of which is read.
const site = `pay_offer {
		base_url http://{HOST}
		contact pay@example.org
		rate_limit 10000 1s
		card https://checkout.example/pay
		usdc base-sepolia 0x52908400098527886E0F7030069857D2E4169EE7 {
			facilitator {FACILITATOR}
			rpc off
		}
		bitcoin tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx {
			rates mempool
			esplora off
		}
		bank_transfer transfer pay@example.org
		storefront tip-jar https://shop.example/tip
	}`

// noFacilitator is an address at which nobody answers.
const noFacilitator = "http://127.0.0.1:9"

// startOffer runs the plugin as it is released.
func startOffer(t testing.TB, name, ledger, facilitator string, lanes int, env ...string) *side {
	t.Helper()
	return startCaddy(t, server.Released(t), name, "pay_offer {\n\t\tledger "+ledger+"\n\t}",
		strings.ReplaceAll(site, "{FACILITATOR}", facilitator), lanes, env...)
}

// fixed are requests whose answers are made before they come.
type fixed struct {
	figure, goal string
	request
}

// get is a GET of a path by a program.
func get(path string) request { return request{method: http.MethodGet, path: path} }

var documents = []fixed{
	{"agent card", "≥ 0.85", get(offer.PathAgentCard)},
	{"OpenAPI", "≥ 0.85", get(offer.PathOpenAPI)},
	{"llms.txt", "≥ 0.85", get(offer.PathLLMs)},
	{"page for people", "≥ 0.85", request{method: http.MethodGet, path: offer.PathMethods, header: http.Header{"Accept": {"text/html"}}}},
	{".uri", "≥ 0.85", get(offer.URIPath("usdc"))},
	{"402 of a POST to /v1/sponsor", "≥ 0.85", request{method: http.MethodPost, path: offer.PathSponsor}},
	{"402 of /v1/quote", "≥ 0.85", get(offer.PathQuote)},
	{"QR image", "≥ 0.85", request{}},
	{"/v1/received", "≥ 0.8", get(offer.PathReceived)},
}

// clients is how many ask at once where answers are fixed.
const clients = 2

// measureDocuments compares what is rendered before it is asked for with handlers that write the same bytes.
func measureDocuments(b *testing.B, t *table) {
	ours := startOffer(b, "pay_offer", "sqlite {DIR}/ledger.db", noFacilitator, clients, prices.Start(b)...)
	wanted := documents
	var image *url.URL
	require.Eventually(b, func() bool {
		redirect := ours.ask(b, get(offer.PNGPath("card")))
		var err error
		image, err = url.Parse(redirect.Header.Get("Location"))
		return err == nil && redirect.Status == http.StatusFound
	}, time.Minute, 20*time.Millisecond, "the key of the QR codes is there")
	answers := map[string]answer{}
	for i := range wanted {
		d := &wanted[i]
		if d.figure == "QR image" {
			d.request = get(image.Path)
		}
		a := ours.ask(b, d.request)
		require.NotEmpty(b, a.Body, "%s: %d", d.figure, a.Status)
		answers[d.method+" "+d.path] = a.copied()
	}
	bare := startBare(b, answers, clients)
	for _, d := range wanted {
		want := answers[d.method+" "+d.path]
		requireSame(b, want, bare.ask(b, d.request))
		spent := costs(b, d.request, want.Status, ours, bare)
		beside := fmt.Sprintf("%s, %d bytes", microseconds(spent[0], spent[1]), len(want.Body))
		t.add(d.figure+": bare Caddy handler ÷ ours", ratio(spent[1], spent[0]), d.goal, beside)
	}
}
