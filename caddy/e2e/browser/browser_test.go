package browser

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/showcase"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
)

// visit is a browser and what it can look at: the hosts of the shipped Caddyfile, the site of one that has a checkout, and one
// host with every rail and receipts.
type visit struct {
	*Browser
	service, site, open, showcase string
	receipts                      map[string]string // the paths of the showcase's, by their external ids
}

// checkout is where a name could be; no request reaches it.
const checkout = "https://checkout.shop/pay-42"

// TestInTheBrowser starts the browser once, for that takes longest.
func TestInTheBrowser(t *testing.T) {
	v := visit{Browser: Start(t)}
	var pages *web.Server
	v.showcase, pages = serve(t, func(address string) *offer.Offer { return showcase.Offer(t, address) })
	v.receipts = showcase.Receipts(t, pages)
	shipped := server.StartShipped(t)
	v.service, v.site, v.open = shipped.Service, shipped.Site, server.StartEdited(t, []string{"card " + checkout}).Site
	t.Run("every page is what every page must be", v.everyPage)
	t.Run("hostile texts do nothing", v.hostile)
	t.Run("the terms stand beside each code", v.terms)
	t.Run("copy buttons copy the exact value", v.copies)
	t.Run("one row of the chooser is open, low enough for a phone", v.rows)
	t.Run("rows open without a script", v.rowsWithoutScript)
	t.Run("a link to a row opens it", v.linkToRow)
	t.Run("payments are a short list on a phone", v.phone)
	t.Run("the open row is printed", v.print)
	t.Run("a price renews itself before it ends", v.renewal)
	t.Run("every language has its place", v.languages)
	t.Run("the offer opens the checkout unless the person does something", v.countdown)
}

// serve serves the pages of the offer that o makes for its address, on a free port of the loopback interface.
func serve(t *testing.T, o func(address string) *offer.Offer) (address string, pages *web.Server) {
	t.Helper()
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !pages.Serve(w, r) {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(host.Close)
	pages = showcase.New(t, o(host.URL))
	return host.URL, pages
}

func requireUsable(t *testing.T, links []Link) {
	t.Helper()
	require.NotEmpty(t, links)
	for _, link := range links {
		require.NotEmpty(t, link.Text, link.URL)
		require.True(t, link.Usable, link.URL)
	}
}

func (v visit) countdown(t *testing.T) {
	here := v.open + offer.PathSite
	all := []Waiting{{URL: here, Does: "nothing", ReducedMotion: true}, {URL: v.site + offer.PathSite, Does: "key"}}
	for _, does := range []string{"nothing", "button", "key", "focus", "pointer", "scroll", "select", "resize", "leave", "return"} {
		all = append(all, Waiting{URL: here, Does: does})
	}
	ends := v.Waits(t, all...)
	for i, waiting := range all[2:] {
		does, end := waiting.Does, ends[i+2]
		t.Run(does, func(t *testing.T) {
			require.Contains(t, end.Before, "20 seconds left")
			require.Contains(t, end.Before, "opens by itself after 20 seconds")
			require.Contains(t, end.After, "17 seconds left")
			require.Empty(t, end.Messages)
			if does == "nothing" {
				require.Equal(t, checkout, end.URL)
				return
			}
			require.Equal(t, here, end.URL)
			require.Less(t, end.Height, 900, "also after it was narrow for a moment")
			require.NotRegexp(t, "[0-9] seconds?", end.Text)
			require.Equal(t, does != "return", strings.Contains(end.Text, "Use the button when you are ready."))
		})
	}
	for name, end := range map[string]Countdown{"reduced motion": ends[0], "the demo": ends[1]} {
		require.NotRegexp(t, "[0-9] seconds?", end.Before, name)
		require.NotContains(t, end.URL, "checkout", name)
		require.Empty(t, end.Messages, name)
		require.Equal(t, name == "the demo", strings.Contains(end.Text, "This is a demo"), name)
	}
}

// languages looks at each page that has words of its own in every language on the narrowest window, that of 1280 pixels at
// 400 % (WCAG 2.2, criterion 1.4.10).
func (v visit) languages(t *testing.T) {
	var views []View
	longest := longestLanguage(t)
	for _, l := range text.Languages {
		for name, url := range map[string]string{
			"offer": v.open + offer.PathSite, "demo": v.site + offer.PathSite, "sponsor": v.service + offer.PathSponsor, "problem": v.service + offer.URIPath("none"),
			"pay": v.showcase + offer.PathMethods, "transfer": v.showcase + offer.PagePath("transfer"),
		} {
			views = append(views, View{
				URL: url + "?lang=" + l.Tag + "#usdc", Width: 320, Audit: l.Tag == longest && !strings.HasPrefix(url, v.showcase), Screenshot: Screenshot(name + "-" + l.Tag),
			})
		}
	}
	for i, page := range v.Looks(t, views...) {
		require.Zero(t, page.Overflow, views[i].URL)
		require.Empty(t, page.Cut, views[i].URL)
		require.Empty(t, page.Violations, views[i].URL)
		requireUsable(t, page.Links)
	}
}
