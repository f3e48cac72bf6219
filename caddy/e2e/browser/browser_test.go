package browser

import (
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
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
)

// visit is a browser and what it can look at: the hosts of the shipped Caddyfile, the site of one that has a checkout, and one
// host with every rail and receipts.
type visit struct {
	*Browser
	service, site, open, showcase string
	sells                         string            // the service of the site open
	receipts                      map[string]string // the paths of the showcase's, by their external ids
	invoices                      map[string]string // the same of those that are not paid, by their states
}

// checkout is where a name could be; no request reaches it.
const checkout = "https://checkout.shop/pay-42"

// TestPagesInBrowser starts the browser once, for that takes longest.
func TestPagesInBrowser(t *testing.T) {
	v := visit{Browser: Start(t)}
	var pages *web.Server
	v.showcase, pages = serve(t, func(address string) *offer.Offer { return showcase.Offer(t, address) })
	v.receipts, v.invoices = showcase.Receipts(t, pages), showcase.Invoices(t, pages)
	shipped := server.StartShipped(t)
	selling := server.StartEdited(t, []string{"card " + checkout, "contact pay@example.org"})
	v.service, v.site, v.open, v.sells = shipped.Service, shipped.Site, selling.Site, selling.Service
	t.Run("every page is what every page must be", v.everyPage)
	t.Run("every text fits", v.everyTextFits)
	t.Run("logos keep their form", v.logosKeepForm)
	t.Run("a seller's stylesheet changes colors, font and radius", v.sellerStylesheet)
	t.Run("hostile texts do nothing", v.hostile)
	t.Run("the terms stand beside each code", v.terms)
	t.Run("copy buttons copy the exact value", v.copies)
	t.Run("one row of the chooser is open, low enough for a phone", v.rows)
	t.Run("rows are chosen like radio buttons", v.choice)
	t.Run("rows open without a script", v.rowsWithoutScript)
	t.Run("a link to a row opens it", v.linkToRow)
	t.Run("payments are a short list on a phone", v.phone)
	t.Run("the open row is printed", v.print)
	t.Run("a price renews itself before it ends", v.renewal)
	t.Run("every language has its place", v.languages)
	t.Run("no page after a payment leads to the checkout", v.afterPayment)
	t.Run("the offer opens the checkout unless the person does something", v.countdown)
}

// serve serves the pages of the offer that o makes for its address, on a free port of the loopback interface. Its clock is at
// the exchange rate, so that the price is valid.
func serve(t *testing.T, o func(address string) *offer.Offer) (address string, pages *web.Server) {
	t.Helper()
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", showcase.Live.RateAt.UTC().Format(http.TimeFormat))
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

// afterPayment follows every link of the pages after a payment, and waits there for a minute.
func (v visit) afterPayment(t *testing.T) {
	followed := []Waiting{{URL: v.sells + offer.PathThanks, Does: "nothing", Paid: v.sells + offer.PathThanks}} // a reload
	for _, path := range []string{offer.PathThanks, offer.PathThanks + "?session_id=cs_1", offer.PathThanks + "?session_id=incomplete", offer.PathReceipt + "/none"} {
		page := v.Look(t, View{URL: v.sells + path, Width: 390})
		home := 0
		for _, link := range page.Links {
			same := func(w Waiting) bool { return w.URL == link.URL }
			if strings.HasPrefix(link.URL, "http") && !strings.Contains(link.URL, "lang=") && !slices.ContainsFunc(followed, same) {
				followed = append(followed, Waiting{URL: link.URL, Does: "nothing", Paid: v.sells + offer.PathThanks})
			}
			if link.URL == v.open+"/" {
				home++
			}
		}
		require.Equal(t, strings.HasPrefix(path, offer.PathThanks) && !strings.HasSuffix(path, "incomplete"), home == 1, path)
	}
	for i, end := range v.Waits(t, followed...) {
		require.NotContains(t, end.URL, checkout, followed[i].URL)
		require.NotContains(t, end.URL, offer.PathMethods+"?", followed[i].URL)
	}
}

func (v visit) countdown(t *testing.T) {
	here := v.open + offer.PathSite
	all := []Waiting{{URL: here, Does: "nothing", ReducedMotion: true}, {URL: v.site + offer.PathSite, Does: "key"}}
	paid := Waiting{URL: here, Does: "nothing", Paid: v.service + offer.PathThanks}
	for _, does := range []string{"nothing", "button", "key", "focus", "pointer", "scroll", "select", "resize", "leave", "return"} {
		all = append(all, Waiting{URL: here, Does: does})
	}
	again := paid
	again.Does = "again"
	ends := v.Waits(t, append(all, paid, again)...)
	afterPayment := ends[len(all)]
	require.Equal(t, here, afterPayment.URL, "a browser that has just paid")
	require.Contains(t, afterPayment.Before, "You have already paid")
	require.NotRegexp(t, "[0-9] seconds?", afterPayment.Before)
	for _, asked := range ends[len(all):] {
		require.NotContains(t, asked.Before, "Pay $42", "no checkout without an answer")
	}
	answered := ends[len(all)+1]
	require.Equal(t, here, answered.URL, "the answer opens nothing by itself")
	require.NotContains(t, answered.Text, "You have already paid")
	require.Contains(t, answered.Text, "Pay $42")
	require.NotRegexp(t, "[0-9] seconds?", answered.Text)
	for i, waiting := range all[2:] {
		does, end := waiting.Does, ends[i+2]
		t.Run(does, func(t *testing.T) {
			require.Contains(t, end.Before, "20 seconds left")
			require.Contains(t, end.Before, "The checkout opens by itself.")
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
