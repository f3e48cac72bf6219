package demo

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/buyer"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// Every name that is looked up for a connection goes through the resolver. This comes
// before what loads real offers, for those ask.
func TestDemoMakesNoOutsideConnections(t *testing.T) {
	before := lookups.Load()
	h := open(t)
	require.NoError(t, h.load())
	require.Equal(t, "confirmed", h.arrival(h.sell()).State)
	h.pay()
	require.NoError(t, caddy.Stop())
	require.Equal(t, before, lookups.Load())

	h.set("card https://buy.stripe.com/1")
	require.NoError(t, h.load())
	// The same file with an address of one's own asks for prices, and others.
	require.Eventually(t, func() bool { return lookups.Load() > before }, time.Minute, 10*time.Millisecond)
}

func TestDemoCheckoutPaymentIsReceived(t *testing.T) {
	h := open(t)
	require.NoError(t, h.load())
	checkout := h.checkout()
	require.True(t, strings.HasPrefix(checkout, "http://127.0.0.1:"), checkout)
	page, body := h.ask(http.MethodGet, checkout, nil)
	require.Equal(t, http.StatusOK, page.StatusCode)
	require.Contains(t, body, "pretend checkout")
	require.Contains(t, body, "$42")
	require.Contains(t, body, `href="`+h.service+`/v1/pay"`)
	require.Empty(t, h.received(), "who looks has not paid")

	paid := h.arrival(h.sell())
	require.Equal(t, "confirmed", paid.State)
	require.True(t, paid.Testnet, "the processor says that it was no live payment")
	require.EqualValues(t, 42, paid.Payment.AmountUsd)
	require.Contains(t, h.page(paid.Payment.ReceiptURL, "en"), "The payment has arrived.")
	require.Equal(t, []string{"1 42 0"}, h.received(), "a test payment counts in no sum")
	h.sell()
	require.Equal(t, []string{"2 84 0"}, h.received(), "every payment is one of its own")
}

func TestDemoCheckoutDeclinedCard(t *testing.T) {
	h := open(t)
	require.NoError(t, h.load())
	answer, body := h.press(h.checkout(), "decline")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Contains(t, body, `<p class="note" role="alert">The card was declined. Nothing was paid.</p>`)
	require.Contains(t, body, `value="pay"`, "the payer can try again")
	require.Empty(t, h.received())
	require.Equal(t, "confirmed", h.arrival(h.sell()).State)
}

func TestDemoCheckoutDelayedPayment(t *testing.T) {
	h := open(t)
	require.NoError(t, h.load())
	var aMinuteLater func()
	before := running.inAMinute
	running.inAMinute = func(f func()) { aMinuteLater = f }
	t.Cleanup(func() { running.inAMinute = before })

	back := h.back("later")
	require.Equal(t, "seen", h.arrival(back).State)
	require.Empty(t, h.received())
	answer, body := h.press(h.checkout(), "refund")
	require.Equal(t, http.StatusBadGateway, answer.StatusCode)
	require.Contains(t, body, "there is no payment to refund")

	aMinuteLater()
	require.Equal(t, "confirmed", h.arrival(back).State)
	require.Equal(t, []string{"1 42 0"}, h.received())
}

func TestDemoCheckoutRefundsLastPaymentOnce(t *testing.T) {
	h := open(t)
	require.NoError(t, h.load())
	_, body := h.ask(http.MethodGet, h.checkout(), nil)
	require.NotContains(t, body, `value="refund"`)
	first, last := h.sell(), h.sell()
	_, body = h.ask(http.MethodGet, h.checkout(), nil)
	require.Contains(t, body, `value="refund"`)

	require.Equal(t, last, h.back("refund"))
	refunded := h.arrival(last)
	require.Equal(t, "refunded", refunded.State)
	require.Contains(t, h.page(refunded.Payment.ReceiptURL, "en"), "Refunded")
	require.Equal(t, "confirmed", h.arrival(first).State)
	answer, body := h.press(h.checkout(), "refund")
	require.Equal(t, http.StatusBadGateway, answer.StatusCode)
	require.NotContains(t, body, `value="refund"`)
}

func TestDemoCheckoutRefusesOtherRequests(t *testing.T) {
	h := open(t)
	require.NoError(t, h.load())
	checkout := h.checkout()
	for name, c := range map[string]struct {
		method, url string
		header      http.Header
		want        int
	}{
		"another site's form": {http.MethodPost, checkout, http.Header{"Sec-Fetch-Site": {"cross-site"}}, http.StatusForbidden},
		"another offer":       {http.MethodPost, checkout + "0", nil, http.StatusNotFound},
		"no offer":            {http.MethodGet, strings.TrimSuffix(checkout, offer.Host(h.service)), nil, http.StatusNotFound},
		"no button":           {http.MethodPost, checkout, nil, http.StatusBadRequest},
		"another method":      {http.MethodPut, checkout, nil, http.StatusMethodNotAllowed},
	} {
		answer, _ := h.ask(c.method, c.url, c.header)
		require.Equal(t, c.want, answer.StatusCode, name)
	}
	require.Empty(t, h.received())
	require.NoError(t, caddy.Stop())
	answer, body := h.press(checkout, "pay")
	require.Equal(t, http.StatusBadGateway, answer.StatusCode)
	require.Contains(t, body, "the service does not answer")
}

// A website can have its own name lead to this machine (DNS rebinding).
func TestDemoServersRefuseOtherHosts(t *testing.T) {
	h := open(t)
	require.NoError(t, h.load())
	for _, part := range []string{h.checkout(), running.built.Facilitator + "/supported"} {
		address := offer.Host(part)
		_, port, _ := strings.Cut(address, ":")
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			for _, host := range []string{"rebound.example:" + port, "127.0.0.1", "localhost:" + port, "127.0.0.1:1", address + "."} {
				request := must(http.NewRequest(method, part, nil))(t)
				request.Host = host
				request.Header.Set("Origin", "http://"+host)
				request.Header.Set("Sec-Fetch-Site", "same-origin")
				answer := must(h.client.Do(request))(t)
				require.NoError(t, answer.Body.Close())
				require.Equal(t, http.StatusMisdirectedRequest, answer.StatusCode, "%s %s by %s", method, part, host)
			}
		}
		answer, _ := h.ask(http.MethodGet, part, nil)
		require.Equal(t, http.StatusOK, answer.StatusCode)
	}
	require.Empty(t, h.received())
}

func TestDemoNoticeOnEveryPage(t *testing.T) {
	h := open(t)
	pages := []string{
		h.service + offer.PathMethods, h.service + offer.PathReceived, h.service + offer.PathThanks, h.service + offer.PathSponsor,
		h.service + offer.PathReceipt + "/none", h.service + "/v1/pay/none.uri", h.site + offer.PathSite,
	}
	say := func(demo bool) {
		t.Helper()
		for _, page := range pages {
			for _, l := range text.Languages {
				body := h.page(page, l.Tag)
				require.Contains(t, body, `lang="`+l.Tag+`"`, page)
				require.Equal(t, demo, strings.Contains(body, l.Text("layout.demo")), "%s %s", page, l.Tag)
			}
		}
	}
	require.NoError(t, h.load())
	back := h.sell()
	pages = append(pages, back, h.arrival(back).Payment.ReceiptURL)
	say(true)
	require.Contains(t, h.page(h.site+offer.PathSite, "en"), `href="`+h.checkout()+`"`, "the page of the site leads to the checkout")
	require.Contains(t, h.page(h.site+offer.PathSite, "en"), "location.assign", "by itself, as a real one")

	pages = pages[:7]
	h.set("card https://buy.stripe.com/1")
	require.NoError(t, h.load())
	say(false)
}

func TestDemoHidesPlaceholderAddresses(t *testing.T) {
	h := open(t, "recommend btc")
	require.NoError(t, h.load())
	for _, url := range []string{h.service + offer.PathMethods, h.service + "/v1/invoice", h.service + "/v1/quote", h.site + offer.PathSite} {
		for _, accept := range []string{"text/html", "application/json"} {
			_, body := h.ask(http.MethodGet, url, http.Header{"Accept": {accept}})
			for _, nobody := range []string{"checkout.example", "tip-jar", "pack.example", "tb1q", "invoices@example.com"} {
				require.NotContains(t, body, nobody, "%s as %s", url, accept)
			}
		}
	}
}

// Whoever sets an address of their own takes money, or tells of it.
func TestDemoNeedsShippedValues(t *testing.T) {
	for _, line := range []string{
		"name Pay", "name Ours", `usdc base-sepolia ""`, `bitcoin ""`, `bank_transfer ""`, `storefront tip-jar ""`, "bind ::1",
		"announce http://127.0.0.1:9/", "announce ntfy http://localhost:9/money",
		"announce email pay@example.org {\n smtp 127.0.0.1:25\n}", "announce email pay@example.org {\n smtp [::1]:25\n}",
	} {
		t.Run("a demo "+line, func(t *testing.T) {
			offers := open(t, line).offers()
			require.Len(t, offers, 1)
			require.True(t, offers[0].Demo)
		})
	}
	const usdc = "usdc base-sepolia 0x000000000000000000000000000000000000dEaD"
	for _, line := range []string{
		"card https://buy.stripe.com/1", "card https://checkout.example/pay-42 {\n payment_link plink_1\n}",
		"usdc base-sepolia 0x52908400098527886E0F7030069857D2E4169EE7", usdc + " {\n facilitator http://127.0.0.1:9\n}", usdc + " {\n rpc off\n}",
		"usdc base 0x000000000000000000000000000000000000dEaD {\n facilitator https://facilitator.example.org\n}",
		"bitcoin bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "bitcoin tb1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq0l98cr {\n esplora off\n}",
		"bank_transfer pay@example.org", "bank_transfer invoices@example.com {\n account_holder Pat\n iban DE75512108001245126199\n}",
		"storefront tip-jar https://shop.example.org/42", "storefront pack https://pack.example/42 {\n product 42\n}",
		"announce https://news.example.org/", "announce ntfy https://ntfy.example.org/money",
		"announce email pay@example.org {\n smtp mail.example.org:587\n}",
	} {
		t.Run("no demo "+line, func(t *testing.T) {
			offers := open(t, line).offers()
			require.Len(t, offers, 1)
			require.False(t, offers[0].Demo)
			require.NotContains(t, offers[0].Card.URL, "127.0.0.1")
		})
	}
}

func TestDemoListensOnLoopbackOnly(t *testing.T) {
	real := "\nhttp://localhost:{PORT} {\n\tpay_offer {\n\t\tbase_url http://localhost:{PORT}\n\t\tcard https://buy.stripe.com/1\n\t}\n}\n"
	for name, c := range map[string]struct {
		line, more, want string
	}{
		"a public service":        {"base_url https://pay.example.org", "", "base_url and site_url of a demo"},
		"a public site":           {"site_url https://example.org", "", "base_url and site_url of a demo"},
		"every address":           {"bind 0.0.0.0", "", "add 'bind 127.0.0.1' to its site blocks"},
		"every address of IPv6":   {"bind ::", "", "add 'bind 127.0.0.1' to its site blocks"},
		"an address of a network": {"bind 192.0.2.1", "", "add 'bind 127.0.0.1' to its site blocks"},
		"a socket":                {"bind unix//tmp/demo.sock", "", "add 'bind 127.0.0.1' to its site blocks"},
		"a second offer":          {"name Ours", real, "a demo must be the only offer"},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, c.line)
			err := caddy.Load(h.config(strings.ReplaceAll(c.more, "{PORT}", "1")), true)
			require.ErrorContains(t, err, c.want)
			_, err = h.client.Get(h.service)
			require.Error(t, err, "nothing listens")
			h.lines = nil
			require.NoError(t, h.load())
		})
	}
}

func TestReloadKeepsDemo(t *testing.T) {
	h := open(t)
	require.NoError(t, h.load())
	checkout, back := h.checkout(), h.sell()

	require.NoError(t, h.load())
	require.Equal(t, checkout, h.checkout())
	require.Equal(t, "confirmed", h.arrival(back).State)
	require.Equal(t, "confirmed", h.arrival(h.sell()).State)

	h.set("card https://buy.stripe.com/1 {\n payment_link plink_1\n webhook_secret whsec_0123456789abcdef\n}")
	require.NoError(t, h.load())
	require.Equal(t, "https://buy.stripe.com/1", h.checkout())
	require.Nil(t, h.arrival(back).Payment)
	require.FileExists(t, filepath.Join(h.storage, "real.db"))
	answer, _ := h.press(checkout, "pay")
	require.Equal(t, http.StatusBadGateway, answer.StatusCode, "what the demo's checkout says is not the real offer's")
	require.Empty(t, h.received())

	h.set("card https://checkout.example/pay-42")
	require.NoError(t, h.load())
	require.Equal(t, "confirmed", h.arrival(back).State)
}

func TestRealOfferRefusesDemoLedger(t *testing.T) {
	h := open(t)
	require.NoError(t, h.load())
	h.sell()
	ledgers, err := filepath.Glob(filepath.Join(running.temp.folder, "*"+strings.TrimPrefix(h.service, "http://localhost:")+".db"))
	require.NoError(t, err)
	require.Len(t, ledgers, 1)
	require.NoError(t, caddy.Stop())

	h.set("card https://buy.stripe.com/1")
	h.ledger = ledgers[0]
	require.ErrorContains(t, h.load(), "the ledger contains the simulated payments of a demo")
	h.ledger = filepath.Join(h.storage, "real.db")
	require.NoError(t, h.load())
}

func TestDemoUSDCPayment(t *testing.T) {
	h := open(t)
	require.NoError(t, h.load())
	paid, quote := h.pay()
	require.Equal(t, "base-sepolia", quote.Network.Name)
	require.True(t, quote.Demo)
	page := h.page(paid.ReceiptURL, "en")
	require.Contains(t, page, "The payment service reports the payment.")
	require.NotContains(t, page, "https://sepolia.basescan.org", "there is no such transaction")
	require.Empty(t, h.received(), "a claim is not confirmed")
}

// pay buys with a key that nobody has used.
func (h *house) pay() (*buyer.Payment, *buyer.Quote) {
	h.Helper()
	target := must(buyer.NewTarget(http.MethodPost, h.service+offer.PathSponsor))(h)
	b, key := &buyer.Buyer{Max: 42_000_000}, buyer.NewKey()
	quote := must(b.Quote(h.Context(), target))(h)
	purchase := must(buyer.OpenPurchase(h.TempDir(), target, key.Address()))(h)
	defer purchase.Close()
	require.NoError(h, purchase.Sign(target, quote, key))
	require.NoError(h, b.Settle(h.Context(), target, purchase))
	return purchase.Payment, quote
}

// must requires that a call succeeds.
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}
