package web

import (
	"html"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/site"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// policyOf is the sources of a directive of a Content-Security-Policy.
func policyOf(policy, directive string) string {
	for part := range strings.SplitSeq(policy, ";") {
		if sources, found := strings.CutPrefix(strings.TrimSpace(part), directive+" "); found {
			return sources
		}
	}
	return ""
}

func TestStylesheetFollowsOwnStyle(t *testing.T) {
	w := newWorld(t)
	plain := send(t, w.server(t), "GET", "/v1/pay", "", "Accept", browser)
	require.NotContains(t, read(t, plain), `rel="stylesheet"`)
	require.NotContains(t, policyOf(plain.Header.Get("Content-Security-Policy"), "style-src"), baseURL)

	w.offer.Style = baseURL + "/brand.css"
	s := w.server(t)
	for _, path := range []string{"/v1/pay", "/v1/received", "/v1/thanks", "/v1/sponsor", "/v1/pay/transfer", "/v1/receipt/none"} {
		res := send(t, s, "GET", path, "", "Accept", browser)
		require.Contains(t, read(t, res), `</style><link rel="stylesheet" href="`+baseURL+`/brand.css">`, path)
		sources := strings.Fields(policyOf(res.Header.Get("Content-Security-Policy"), "style-src"))
		require.Contains(t, sources, baseURL, path)
		require.NotContains(t, sources, "'unsafe-inline'", path)
	}

	g := newGated(t)
	g.world.offer.Style = baseURL + "/brand.css"
	res := g.ask("GET", "/members/", "Accept", browser)
	require.Contains(t, read(t, res), `</style><link rel="stylesheet" href="`+baseURL+`/brand.css">`)
	require.Contains(t, strings.Fields(policyOf(res.Header.Get("Content-Security-Policy"), "style-src")), baseURL, "the page of a gate is on another host")

	data := site.NewData(w.offer, "", nil)
	require.Equal(t, baseURL+"/brand.css", data.Stylesheet)
	require.Contains(t, strings.Fields(policyOf(data.Headers["Content-Security-Policy"], "style-src")), baseURL)
}

func TestGatePageShowsBrand(t *testing.T) {
	g := newGated(t)
	res := g.ask("GET", "/members/", "Accept", browser)
	page := read(t, res)
	require.Contains(t, page, `<link rel="icon" href="data:image/svg`)
	require.Contains(t, page, `<span class="logo" aria-hidden="true">E</span>`)
	require.Equal(t, "data: "+baseURL, policyOf(res.Header.Get("Content-Security-Policy"), "img-src"))

	g.world.offer.Logo = baseURL + "/logo.svg"
	page = read(t, g.ask("GET", "/members/", "Accept", browser))
	require.Contains(t, page, `<link rel="icon" href="`+baseURL+`/logo.svg">`)
	require.Contains(t, page, `<img class="logo" src="`+baseURL+`/logo.svg" height="40" alt="">`)
}

func TestGatePageHelpsPayerWithoutReceipt(t *testing.T) {
	for _, l := range text.Languages {
		g := newGated(t)
		g.server.Offer.Refunds = "We refund."
		page := read(t, g.ask("GET", "/members/a?id=5&lang="+l.Tag, "Accept", browser))
		require.Contains(t, page, `<html lang="`+l.Tag+`">`)
		require.Contains(t, html.UnescapeString(page), "</a></p>\n"+`<p class="quiet small">`+l.Text("pay.charged")+". We refund.</p>", "beside the button that pays")
		require.Contains(t, page, l.Text("gate.lost")+` <a href="mailto:pay@example.org">pay@example.org</a>`)
		g.server.Offer.Contact = ""
		require.Contains(t, read(t, g.ask("GET", "/members/a?id=5&lang="+l.Tag, "Accept", browser)),
			l.Text("gate.paid", "open", l.Text("gate.open"))+`<br><a href="`+g.server.Offer.Home+`">`+l.Text("layout.back", "name", "Example Org")+"</a></p>", "without an address")
		for _, other := range text.Languages {
			require.Contains(t, page, `<a href="?id=5&amp;lang=`+other.Tag+`" lang="`+other.Tag+`"`, "the links to other languages keep the address")
		}
	}
}
