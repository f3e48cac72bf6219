package web

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// lightningAccount is the account of the invoices of a world.
var lightningAccount = ledger.Account{Offer: "shop", ID: "lightning/alice@wallet.example", Rail: "lightning"}

// newInvoiceWorld is a world whose ledger knows the account of the rail lightning.
func newInvoiceWorld(t testing.TB) *world {
	w := newWorld(t)
	account := lightningAccount
	account.Offer = w.offer.ID
	w.accounts = append(w.accounts, account)
	return w
}

// ordered makes an invoice and returns it, and the path of its page.
func (w *world) ordered(t testing.TB, s *Server) (made map[string]any, path string) {
	t.Helper()
	res := send(t, s, "POST", "/v1/pay/lightning", "")
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	require.Empty(t, res.Header.Get("Access-Control-Allow-Origin"), "the address of the page is the payer's secret")
	made = readJSON(t, res)
	return made, strings.TrimPrefix(made["url"].(string), w.offer.BaseURL)
}

func TestNewInvoiceAnswersProgramsAndBrowsers(t *testing.T) {
	w := newInvoiceWorld(t)
	s := w.server(t)
	made, path := w.ordered(t, s)
	request := w.invoices[0].Request
	require.Equal(t, map[string]any{
		"url": w.offer.BaseURL + path, "rail": "lightning", "status": "open", "paymentRequest": request, "uri": "lightning:" + request,
		"paymentHash": w.invoices[0].Hash, "amountUsd": 42.0, "asset": "BTC", "amountAtomic": "45678",
		"validUntil": at.Add(10 * time.Minute).UTC().Format(time.RFC3339), "monitored": true,
	}, made)
	require.Equal(t, made, readJSON(t, send(t, s, "GET", path, "")))

	for query, want := range map[string]string{"": "", "?lang=fr": "?lang=fr"} {
		res := send(t, s, "POST", "/v1/pay/lightning"+query, "", "Accept", browser)
		require.Equal(t, http.StatusFound, res.StatusCode)
		address := res.Header.Get("Location")
		require.True(t, strings.HasPrefix(address, "/v1/receipt/") && strings.HasSuffix(address, want), address)
		require.Equal(t, http.StatusOK, send(t, s, "GET", address, "", "Accept", browser).StatusCode)
	}
	require.Len(t, w.invoices, 3)
}

func TestInvoicePageShowsHowToPayUntilItExpires(t *testing.T) {
	w := newInvoiceWorld(t)
	s := w.server(t)
	_, path := w.ordered(t, s)
	request := w.invoices[0].Request
	for _, l := range text.Languages {
		w.now = func() time.Time { return at.Add(30 * time.Second) }
		res := send(t, s, "GET", path+"?lang="+l.Tag, "", "Accept", browser)
		require.Contains(t, res.Header.Get("Content-Security-Policy"), "form-action 'self'")
		require.Equal(t, "noindex", res.Header.Get("X-Robots-Tag"))
		page := html.UnescapeString(read(t, res))
		require.Contains(t, page, `id="live" data-arrive>`, "it says received by itself")
		require.Contains(t, page, l.Text("rail.lightning.open"))
		require.Contains(t, page, l.Text("rail.lightning.pay"))
		require.Contains(t, page, l.Text("rail.lightning.left", "n", 10, "time", at.Add(10*time.Minute).UTC().Format("15:04 UTC")))
		require.Contains(t, page, `href="lightning:`+request+`"`)
		require.Contains(t, page, `data-copy="`+request+`"`)
		require.Contains(t, page, `src="`+qrPath(qrKey, "lightning", "lightning:"+strings.ToUpper(request))+`"`)
		require.Contains(t, page, "<noscript>")
		require.NotContains(t, page, `<form`)

		w.now = func() time.Time { return at.Add(10 * time.Minute) }
		page = html.UnescapeString(read(t, send(t, s, "GET", path+"?lang="+l.Tag, "", "Accept", browser)))
		require.Contains(t, page, l.Text("rail.lightning.expired"))
		require.Contains(t, page, l.Text("rail.lightning.late"))
		require.Contains(t, page, `id="live" data-arrive>`, "a late payment counts")
		require.Contains(t, page, `<form class="actions" method="post" action="/v1/pay/lightning?lang=`+l.Tag+`">`)
		require.NotContains(t, page, request)
	}
	require.Equal(t, "expired", readJSON(t, send(t, s, "GET", path, ""))["status"])
	require.Len(t, w.watched, 2*len(text.Languages)+1, "its payer waits")
	require.Equal(t, lightningAccount.ID+" "+w.invoices[0].Hash, w.watched[0])
	require.Len(t, w.invoices, 1)
}

// A wallet decides how long its invoice can be paid, but not how long the price is that of today.
func TestInvoicePageOfLongInvoiceEndsWithItsPrice(t *testing.T) {
	w := newInvoiceWorld(t)
	s := w.server(t)
	_, path := w.ordered(t, s)
	w.invoices[0].ExpireAt = at.Add(30 * 24 * time.Hour).Unix()
	end := at.Add(ledger.InvoicePrice)
	page := html.UnescapeString(read(t, send(t, s, "GET", path, "", "Accept", browser)))
	require.Contains(t, page, text.Languages[0].Text("rail.lightning.left", "n", 60, "time", end.UTC().Format("15:04 UTC")))
	require.Equal(t, end.UTC().Format(time.RFC3339), readJSON(t, send(t, s, "GET", path, ""))["validUntil"])
	w.now = func() time.Time { return end.Add(-time.Second) }
	require.Equal(t, "open", readJSON(t, send(t, s, "GET", path, ""))["status"])
	w.now = func() time.Time { return end }
	require.Equal(t, "expired", readJSON(t, send(t, s, "GET", path, ""))["status"])
}

func TestInvoicePageOfWalletWithoutVerifySaysWhoConfirms(t *testing.T) {
	w := newInvoiceWorld(t)
	s := w.server(t)
	_, path := w.ordered(t, s)
	w.invoices[0].Verify = ""
	for _, l := range text.Languages {
		page := html.UnescapeString(read(t, send(t, s, "GET", path+"?lang="+l.Tag, "", "Accept", browser)))
		require.Contains(t, page, l.Text("rail.lightning.manual"))
		require.NotContains(t, page, l.Text("rail.lightning.pay"))
	}
	require.Equal(t, false, readJSON(t, send(t, s, "GET", path, ""))["monitored"])
}

// The address of an invoice is that of its receipt, and before that it opens and signs nothing.
func TestInvoicePageBecomesReceipt(t *testing.T) {
	w := newInvoiceWorld(t)
	s := w.server(t)
	_, path := w.ordered(t, s)
	i := w.invoices[0]
	for _, file := range []string{signedFile, enterFile} {
		if serves(t, s, path+file) {
			require.Equal(t, http.StatusNotFound, send(t, s, "GET", path+file, "").StatusCode)
		}
	}
	cents := i.USDCents
	w.receipts = append(w.receipts, ledger.Receipt{
		ID: 1, Offer: i.Offer, Account: i.Account, Rail: i.Rail, ExternalID: i.Hash, Asset: "BTC", Amount: i.Satoshis, USDCents: &cents,
		ValueBasis: ledger.BasisQuote, State: ledger.StatusConfirmed, Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelProvider, Version: 1, OccurredAt: at.Unix(),
	})
	page := read(t, send(t, s, "GET", path, "", "Accept", browser))
	require.Contains(t, page, ">Paid</p>")
	require.Contains(t, page, "0.00045678 BTC")
	require.NotContains(t, page, i.Request)
	paid := readJSON(t, send(t, s, "GET", path, ""))
	require.Equal(t, "confirmed", paid["status"])
	require.Equal(t, i.Hash, paid["id"])
}

func TestInvoiceOfAnotherIDIsNotFound(t *testing.T) {
	w := newInvoiceWorld(t)
	s := w.server(t)
	_, path := w.ordered(t, s)
	for _, other := range []string{flip(path, len(path)-3), flip(path, len("/v1/receipt/")+3)} {
		require.Equal(t, http.StatusNotFound, send(t, s, "GET", other, "").StatusCode, "an id is made with the key")
	}
	w.key = nil
	forged := "/v1/receipt/" + invoiceID(nil, w.invoices[0])
	require.Equal(t, http.StatusServiceUnavailable, send(t, s, "GET", forged, "").StatusCode, "no key is loaded")
	w.key = qrKey
	w.invoices = nil
	require.Equal(t, http.StatusNotFound, send(t, s, "GET", path, "").StatusCode)
	require.Empty(t, w.watched)
}

// A stranger who clicks for ever is limited.
func TestNewInvoicesOfAClientAreLimited(t *testing.T) {
	w := newInvoiceWorld(t)
	w.limiter = x402.NewLimiter(x402.Limit{Attempts: 10, Period: time.Minute})
	s := w.server(t)
	for range 100 {
		res := send(t, s, "POST", "/v1/pay/lightning", "")
		if res.StatusCode != http.StatusOK {
			require.Equal(t, http.StatusTooManyRequests, res.StatusCode)
			require.Equal(t, "6", res.Header.Get("Retry-After"))
		}
	}
	require.Len(t, w.invoices, 10)
	w.now = func() time.Time { return at.Add(6 * time.Second) }
	require.Equal(t, http.StatusOK, send(t, s, "POST", "/v1/pay/lightning", "").StatusCode)
}

// Strangers who use up all invoices of the offer take no payment attempts from a client, whatever it pays with.
func TestRefusedInvoiceCostsClientNoAttempt(t *testing.T) {
	w := newInvoiceWorld(t)
	w.limiter = x402.NewLimiter(x402.Limit{Attempts: 1, Period: time.Minute})
	s := w.server(t)
	refused := func() {
		res := send(t, s, "POST", "/v1/pay/lightning", "")
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		require.NotEmpty(t, res.Header.Get("Retry-After"))
	}
	w.busy = true
	refused()
	key, live := w.key, w.live
	w.busy, w.key = false, nil
	refused()
	w.key, w.live = key, offer.Live{}
	s = w.server(t)
	refused()
	w.live = live
	require.Equal(t, http.StatusOK, send(t, w.server(t), "POST", "/v1/pay/lightning", "").StatusCode)
	w.busy = true
	res := send(t, w.server(t), "POST", "/v1/pay/lightning", "")
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode, "the client is not to blame")
}

// A network of 48 bits has 65,536 of 64 bits, and often one owner.
func TestInvoicesOfAnIPv6NetworkAreLimited(t *testing.T) {
	w := newInvoiceWorld(t)
	w.limiter = x402.NewLimiter(x402.Limit{Attempts: 10, Period: time.Minute})
	s := w.server(t)
	from := func(address string) int {
		r := httptest.NewRequest("POST", "/v1/pay/lightning", nil)
		r.RemoteAddr = address
		res := httptest.NewRecorder()
		require.True(t, s.Serve(res, r))
		return res.Code
	}
	for n := range 10 {
		require.Equal(t, http.StatusOK, from(fmt.Sprintf("2001:db8:1:%x::1", n)))
	}
	require.Equal(t, http.StatusTooManyRequests, from("2001:db8:1:ffff::1"))
	require.Equal(t, http.StatusOK, from("2001:db8:2::1"))
	require.Equal(t, http.StatusOK, from("192.0.2.9"))
}

// No GET, HEAD or link preview makes an invoice, whatever it accepts.
func TestGETMakesNoInvoice(t *testing.T) {
	w := newInvoiceWorld(t)
	s := w.server(t)
	_, path := w.ordered(t, s)
	targets := []string{path, path + "?lang=de", "/v1/pay/lightning", "/v1/pay/lightning?amount=42"}
	for _, p := range served(s) {
		targets = append(targets, p.path)
	}
	accepts := []string{browser, "application/json", "text/uri-list", "image/png", "*/*"}
	agents := []string{"Googlebot/2.1", "facebookexternalhit/1.1", "Twitterbot/1.0", "curl/8"}
	count := cases.Of(1_000, 10_000, 10_000)
	for n := range count {
		method := []string{"GET", "HEAD"}[n/len(targets)%2]
		target := targets[n%len(targets)]
		send(t, s, method, target, "", "Accept", accepts[n%len(accepts)], "User-Agent", agents[n%len(agents)], "Purpose", "prefetch")
	}
	res := send(t, s, "POST", "/v1/pay/lightning", "", "Accept", browser, "Sec-Fetch-Site", "cross-site")
	require.Equal(t, "/v1/pay#lightning", res.Header.Get("Location"), "a form of another site")
	for _, method := range []string{"PUT", "DELETE", "OPTIONS", "PATCH"} {
		send(t, s, method, "/v1/pay/lightning", "")
	}
	require.Len(t, w.invoices, 1, "%d requests", count)
	require.Equal(t, "/v1/pay#lightning", send(t, s, "GET", "/v1/pay/lightning", "", "Accept", browser).Header.Get("Location"))
}

// A browser that does not send Sec-Fetch-Site, such as one that reads the page over http, names the origin of the form.
func TestFormOfAnotherSiteMakesNoInvoice(t *testing.T) {
	w := newInvoiceWorld(t)
	s := w.server(t)
	for name, c := range map[string]struct {
		origin, site string
		made         bool
	}{
		"another site":                 {"https://evil.example", "", false},
		"another port":                 {"http://example.com:8080", "", false},
		"our page, by its no-referrer": {"null", "", true},
		"no address":                   {"https://%zz", "", false},
		"this host":                    {"http://example.com", "", true},
		"the offer, behind a proxy":    {w.offer.BaseURL, "", true},
		"a program":                    {"", "", true},
		"the browser says cross-site":  {"http://example.com", "cross-site", false},
		"the browser says same-site":   {"https://www.example.org", "same-site", true},
	} {
		before := len(w.invoices)
		var headers []string
		for header, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
			if value != "" {
				headers = append(headers, header, value)
			}
		}
		send(t, s, "POST", "/v1/pay/lightning", "", headers...)
		require.Equal(t, c.made, len(w.invoices) > before, name)
	}
}

func TestLightningURIIsTheAddress(t *testing.T) {
	w := newInvoiceWorld(t)
	s := w.server(t)
	require.Equal(t, "lightning:alice@wallet.example\r\n", read(t, send(t, s, "GET", "/v1/pay/lightning.uri", "", "Accept", "text/uri-list")))
	require.Equal(t, qrPath(qrKey, "lightning", "lightning:alice@wallet.example"), send(t, s, "GET", "/v1/pay/lightning.png", "").Header.Get("Location"))
	method := readJSON(t, send(t, s, "GET", "/v1/pay/lightning.uri", "", "Accept", "application/json"))
	require.Equal(t, w.offer.BaseURL+"/v1/pay/lightning", method["invoiceUrl"])
	require.Equal(t, "45678", method["amountAtomic"])
	require.Equal(t, fmt.Sprint(42), fmt.Sprint(method["amountUsd"]))
	require.Empty(t, w.invoices)
}
