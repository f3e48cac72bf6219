package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/showcase"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// visit is a browser and what it can look at: the hosts of the shipped Caddyfile, and one with every rail and receipts.
type visit struct {
	*Browser
	service, site, showcase string
}

// TestInTheBrowser starts the browser once, for that takes longest.
func TestInTheBrowser(t *testing.T) {
	v := visit{Browser: Start(t), showcase: startShowcase(t)}
	shipped := server.StartShipped(t)
	v.service, v.site = shipped.Service, shipped.Site
	t.Run("pages are readable on every screen", v.screens)
	t.Run("pages need no script", v.noScript)
	t.Run("the terms stand beside each code", v.terms)
	t.Run("copy buttons copy the exact value", v.copies)
	t.Run("the offer opens the checkout unless the person does something", v.countdown)
}

// startShowcase serves the showcase on a free port of the loopback interface.
func startShowcase(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	host := httptest.NewServer(mux)
	t.Cleanup(host.Close)
	pages := showcase.New(t, showcase.Offer(t, host.URL))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if !pages.Serve(w, r) {
			http.NotFound(w, r)
		}
	})
	return host.URL
}

// pages are all pages, by a name for pictures.
func (v visit) pages() map[string]string {
	return map[string]string{
		"offer":             v.site + offer.PathSite,
		"pay":               v.service + offer.PathMethods,
		"transfer":          v.service + offer.PagePath("transfer"),
		"received":          v.service + offer.PathReceived,
		"showcase-pay":      v.showcase + offer.PathMethods,
		"showcase-transfer": v.showcase + offer.PagePath("transfer"),
		"showcase-received": v.showcase + offer.PathReceived,
	}
}

func (v visit) screens(t *testing.T) {
	for name, url := range v.pages() {
		for _, width := range []int{390, 1280} {
			for _, dark := range []bool{false, true} {
				view := fmt.Sprintf("%s-%d-%s", name, width, map[bool]string{false: "light", true: "dark"}[dark])
				t.Run(view, func(t *testing.T) {
					page := v.Look(t, View{URL: url, Width: width, Dark: dark, Audit: !dark, Screenshot: Screenshot(view)})
					require.Empty(t, page.Messages)
					require.Empty(t, page.Foreign, "asked for before the person chose")
					require.Zero(t, page.Overflow, "pixels beyond the window")
					require.Greater(t, page.Texts, 10)
					require.Empty(t, page.Faint)
					require.Empty(t, page.Violations)
					for _, image := range page.Images {
						require.NotEmpty(t, image.Alt)
						require.True(t, image.Loaded, image.Alt)
					}
					requireUsable(t, page.Links)
				})
			}
		}
	}
}

func requireUsable(t *testing.T, links []Link) {
	t.Helper()
	require.NotEmpty(t, links)
	for _, link := range links {
		require.NotEmpty(t, link.Text, link.URL)
		require.True(t, link.Usable, link.URL)
	}
}

func (v visit) noScript(t *testing.T) {
	for name, url := range v.pages() {
		t.Run(name, func(t *testing.T) {
			with := v.Look(t, View{URL: url, Width: 390})
			without := v.Look(t, View{URL: url, Width: 390, NoScript: true, Screenshot: Screenshot(name + "-noscript")})
			require.Equal(t, with.Links, without.Links)
			require.Len(t, without.Images, len(with.Images))
			require.Empty(t, without.Buttons, "a button without a script does nothing")
			requireUsable(t, without.Links)
		})
	}
}

// terms holds the text beside each QR code against the invoice, for people must be able to compare
// what their wallet read.
func (v visit) terms(t *testing.T) {
	page := v.Look(t, View{URL: v.showcase + offer.PathMethods, Width: 390})
	o := showcase.Offer(t, v.showcase)
	require.Len(t, page.Images, len(o.Rails))
	for i, rail := range o.Rails {
		for _, want := range besides(rail, o) {
			require.Contains(t, page.Images[i].Beside, want, rail.Name())
		}
	}
	transfer := v.Look(t, View{URL: v.showcase + offer.PagePath("transfer"), Width: 390})
	require.Len(t, transfer.Images, 1)
	for _, want := range besides(o.Transfer(), o) {
		require.Contains(t, transfer.Images[0].Beside, want)
	}
}

// besides are the payee, the amount, the network and the address of a rail as people know them.
func besides(rail offer.Rail, o *offer.Offer) []string {
	return map[string][]string{
		offer.RailCard: {"42 USD", "checkout.example"},
		"usdc":         {"42 USDC", "Base", "8453", "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"},
		"btc":          {"0.00045678 BTC", "Bitcoin", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"},
		"transfer":     {"42.00 USD", o.Operator, "Example 42", "pay@example.org"},
		"tip-jar":      {"42 USD", "shop.example"},
	}[rail.Name()]
}

func (v visit) copies(t *testing.T) {
	copied := v.Copy(t, v.showcase+offer.PathMethods)
	o, want := showcase.Offer(t, v.showcase), map[string]string{}
	for _, rail := range o.Rails {
		for _, fact := range rail.Methods(o, showcase.Live)[0].Facts {
			if fact.Copy != "" {
				want[rail.Name()+" "+text.Languages[0].Text("fact."+fact.Label)] = fact.Copy
			}
		}
	}
	require.Equal(t, want, copied)
	require.Equal(t, "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", copied["usdc To address"])
	require.Equal(t, "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq", copied["btc To address"])
}

func (v visit) countdown(t *testing.T) {
	here := v.site + offer.PathSite
	for does, want := range map[string]string{
		"nothing": "https://checkout.example/pay-42",
		"button":  here,
		"key":     here,
		"leave":   here,
		"return":  here,
	} {
		t.Run(does, func(t *testing.T) {
			end := v.Wait(t, here, does)
			require.Contains(t, end.Before, "10 seconds")
			require.Contains(t, end.After, "7 seconds")
			require.Equal(t, want, end.URL)
			if want == here {
				require.NotRegexp(t, "[0-9] seconds?", end.Text)
				require.Equal(t, does != "return", strings.Contains(end.Text, "does not open by itself any more"))
			}
		})
	}
}
