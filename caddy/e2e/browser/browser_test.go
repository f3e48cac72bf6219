package browser

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/showcase"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
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
	v.showcase, v.receipts = startShowcase(t)
	shipped := server.StartShipped(t)
	v.service, v.site, v.open = shipped.Service, shipped.Site, server.StartShipped(t, "CARD_URL="+checkout).Site
	t.Run("pages are readable on every screen", v.screens)
	t.Run("pages need no script", v.noScript)
	t.Run("the terms stand beside each code", v.terms)
	t.Run("copy buttons copy the exact value", v.copies)
	t.Run("one row of the chooser is open, low enough for a phone", v.rows)
	t.Run("rows open without a script", v.rowsWithoutScript)
	t.Run("a link to a row opens it", v.linkToRow)
	t.Run("the opened rows are accessible", v.auditRows)
	t.Run("nothing is lost when text is twice as large", v.zoom)
	t.Run("payments are a short list on a phone", v.phone)
	t.Run("the open row is printed", v.print)
	t.Run("a price renews itself before it ends", v.renewal)
	t.Run("the border of the service speaks every language", v.languages)
	t.Run("the offer opens the checkout unless the person does something", v.countdown)
}

// startShowcase serves the showcase on a free port of the loopback interface.
func startShowcase(t *testing.T) (address string, receipts map[string]string) {
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
	return host.URL, showcase.Receipts(t, pages)
}

// pages are all pages, by a name for pictures.
func (v visit) pages() map[string]string {
	all := map[string]string{
		"demo":              v.site + offer.PathSite,
		"offer":             v.open + offer.PathSite,
		"sponsor":           v.service + offer.PathSponsor,
		"problem":           v.service + offer.URIPath("none"),
		"pay":               v.service + offer.PathMethods,
		"transfer":          v.service + offer.PagePath("transfer"),
		"received":          v.service + offer.PathReceived,
		"showcase-pay":      v.showcase + offer.PathMethods,
		"showcase-transfer": v.showcase + offer.PagePath("transfer"),
		"showcase-received": v.showcase + offer.PathReceived,
		"thanks":            v.service + offer.PathThanks,
		"showcase-thanks":   v.showcase + offer.PathThanks + "?session_id=cs_test_showcase",
	}
	// Of the receipts, which are one page in many states, the first and the last.
	ids := slices.Sorted(maps.Keys(v.receipts))
	for name, id := range map[string]string{"showcase-receipt": ids[0], "showcase-receipt-other": ids[len(ids)-1]} {
		all[name] = v.showcase + v.receipts[id] + "?lang=de"
	}
	return all
}

func (v visit) screens(t *testing.T) {
	for name, url := range v.pages() {
		for _, width := range []int{390, 1280} {
			for _, dark := range []bool{false, true} {
				view := fmt.Sprintf("%s-%d-%s", name, width, map[bool]string{false: "light", true: "dark"}[dark])
				t.Run(view, func(t *testing.T) {
					page := v.Look(t, View{URL: url, Width: width, Dark: dark, Audit: !dark, Screenshot: Screenshot(view)})
					if name != "problem" || len(page.Messages) != 1 { // the browser tells of the status
						require.Empty(t, page.Messages)
					}
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

func (v visit) countdown(t *testing.T) {
	here := v.open + offer.PathSite
	for _, does := range []string{"nothing", "button", "key", "focus", "pointer", "scroll", "select", "resize", "leave", "return"} {
		t.Run(does, func(t *testing.T) {
			end := v.Wait(t, here, does, false)
			require.Contains(t, end.Before, "20 seconds left")
			require.Contains(t, end.Before, "opens by itself after 20 seconds")
			require.Contains(t, end.After, "17 seconds left")
			require.Empty(t, end.Messages)
			if does == "nothing" {
				require.Equal(t, checkout, end.URL)
				return
			}
			require.Equal(t, here, end.URL)
			require.NotRegexp(t, "[0-9] seconds?", end.Text)
			require.Equal(t, does != "return", strings.Contains(end.Text, "does not open by itself any more"))
		})
	}
	for name, end := range map[string]Countdown{
		"reduced motion": v.Wait(t, here, "nothing", true),
		"the demo":       v.Wait(t, v.site+offer.PathSite, "key", false),
	} {
		require.NotRegexp(t, "[0-9] seconds?", end.Before, name)
		require.NotContains(t, end.URL, "checkout", name)
		require.Empty(t, end.Messages, name)
		require.Equal(t, name == "the demo", strings.Contains(end.Text, "This is a demo"), name)
	}
}

// languages looks at the pages that stand at the border of the service, in every language.
func (v visit) languages(t *testing.T) {
	for _, l := range text.Languages {
		for name, url := range map[string]string{
			"offer": v.open + offer.PathSite, "demo": v.site + offer.PathSite, "sponsor": v.service + offer.PathSponsor, "problem": v.service + offer.URIPath("none"),
		} {
			page := v.Look(t, View{URL: url + "?lang=" + l.Tag, Width: 320, Audit: true, Screenshot: Screenshot(name + "-" + l.Tag)})
			require.Zero(t, page.Overflow, name)
			require.Empty(t, page.Violations, name)
			requireUsable(t, page.Links)
		}
	}
}
