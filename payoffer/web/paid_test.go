package web

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

func TestPaidPagesLinkToNoCheckout(t *testing.T) {
	w := newWorld(t)
	paid := w.payment(t, "card", nil)
	w.sessions = map[string]ledger.Receipt{"pay.example.org cs_1": paid}
	s := w.server(t)
	for path, thanked := range map[string]bool{
		"/v1/thanks": true, "/v1/thanks?session_id=cs_1": true, "/v1/thanks?session_id=cs_2": true, "/v1/thanks?session_id=x": false,
		s.ReceiptURL(paid)[len(baseURL):]: true, "/v1/receipt/none": false,
	} {
		res := send(t, s, "GET", path, "", "Accept", browser)
		page := read(t, res)
		for _, link := range regexp.MustCompile(`<a [^>]*href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			require.NotRegexp(t, "/v1/pay|/offer/|^"+regexp.QuoteMeta(checkout), link[1], path)
		}
		require.Equal(t, thanked, res.Header.Get("Set-Cookie") != "", path)
		require.Contains(t, page, "mailto:pay@example.org", path)
	}
}

func TestPaidCookieReachesSite(t *testing.T) {
	const common = "pay_offer_paid=1; Path=/offer/"
	for hosts, want := range map[[2]string]string{
		{"https://example.org", "https://example.org"}:          common + "; Max-Age=3600; Secure; SameSite=Lax",
		{"https://pay.example.org", "https://example.org"}:      common + "; Domain=example.org; Max-Age=3600; Secure; SameSite=Lax",
		{"https://pay.example.org", "https://www.example.org"}:  common + "; Domain=example.org; Max-Age=3600; Secure; SameSite=Lax",
		{"https://a.b.example.org:8443", "https://example.org"}: common + "; Domain=example.org; Max-Age=3600; Secure; SameSite=Lax",
		{"http://localhost:8402", "http://localhost:8403"}:      common + "; Max-Age=3600; SameSite=Lax",
		{"https://pay.example.net", "https://example.org"}:      common + "; Max-Age=3600; Secure; SameSite=Lax",
	} {
		w := newWorld(t)
		w.offer.BaseURL, w.offer.SiteURL = hosts[0], hosts[1]
		require.Equal(t, want, send(t, w.server(t), "GET", "/v1/thanks", "", "Accept", browser).Header.Get("Set-Cookie"), hosts)
	}
}

func TestBackLeadsHome(t *testing.T) {
	w := newWorld(t)
	w.offer.Home = "https://shop.example.org/orders?from=pay&x=1"
	require.Contains(t, read(t, send(t, w.server(t), "GET", "/v1/thanks", "", "Accept", browser)),
		`<a href="https://shop.example.org/orders?from=pay&amp;x=1">Back to Example Org</a>`)
}
