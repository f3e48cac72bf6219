package web

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// cardReceipt is a payment by card that was just made.
func cardReceipt(id int64, name string, status ledger.Status) ledger.Receipt {
	return ledger.Receipt{
		ID: id, Offer: "pay.example.org", Account: "plink_1", ExternalID: name, Rail: "card", Asset: "USD", Amount: 42_00, USDCents: cents(42_00),
		Status: status, EvidenceLevel: ledger.LevelSigned, OccurredAt: at.Unix() - 60, ObservedAt: at.Unix() - 58,
	}
}

func TestThanksPageShowsOnlyOwnCheckout(t *testing.T) {
	w := newWorld(t)
	mine, theirs := cardReceipt(2, "pi_mine", ledger.StatusConfirmed), cardReceipt(1, "pi_theirs", ledger.StatusConfirmed)
	mine.Amount, mine.USDCents = 42_01, cents(42_01)
	foreign := cardReceipt(3, "pi_foreign", ledger.StatusConfirmed)
	w.receipts = []ledger.Receipt{mine, theirs}
	w.sessions = map[string]ledger.Receipt{
		"pay.example.org cs_test_mine": mine, "pay.example.org cs_test_theirs": theirs, "other.example cs_test_foreign": foreign,
	}
	s := w.server(t)
	get := func(session, accept string) string {
		return read(t, send(t, s, "GET", "/v1/thanks?session_id="+session, "", "Accept", accept))
	}
	receipt := func(r ledger.Receipt) string { return "/v1/receipt/" + receiptID(qrKey, r) }

	page := get("cs_test_mine", browser)
	require.Contains(t, page, "<h1>Thank you, you paid $42.01</h1>")
	require.Contains(t, page, `href="`+receipt(mine)+`"`)
	require.NotContains(t, page, receipt(theirs))
	require.Contains(t, page, `?lang=de&amp;session_id=cs_test_mine"`, "another language keeps the checkout")
	require.Contains(t, get("cs_test_theirs", browser), `href="`+receipt(theirs)+`"`)
	for _, stranger := range []string{"cs_test_min", "cs_test_mine_", "cs_test_foreign", "cs_1", "", "%7BCHECKOUT_SESSION_ID%7D"} {
		for _, accept := range []string{browser, "application/json"} {
			answer := get(stranger, accept)
			for _, secret := range []string{"/v1/receipt/", "42.01", "pi_mine", "pi_theirs", `"4201"`} {
				require.NotContains(t, answer, secret, stranger)
			}
		}
	}
	found := readJSON(t, send(t, s, "GET", "/v1/thanks?session_id=cs_test_mine", ""))
	require.Equal(t, "confirmed", found["state"])
	require.Equal(t, baseURL+receipt(mine), found["payment"].(map[string]any)["receiptUrl"])
	require.Equal(t, "42.01", found["payment"].(map[string]any)["amountUsdDecimal"])
	waiting := readJSON(t, send(t, s, "GET", "/v1/thanks?session_id=cs_test_foreign", ""))
	require.Equal(t, map[string]any{"state": "waiting", "occurredAt": nil, "testnet": false, "payment": nil}, waiting)
}

// Whatever is answered to who names a checkout, a script of another origin reads none
// of it, and the same answer in another language is of the same checkout.
func TestThanksPageBlocksOtherOrigins(t *testing.T) {
	for name, c := range map[string]struct {
		query  string
		status int
		err    error
		public bool
	}{
		"paid":      {query: "session_id=cs_1", status: 200},
		"unknown":   {query: "session_id=cs_2", status: 200},
		"unread":    {query: "session_id=cs_1", status: 503, err: errors.New("no ledger")},
		"misspelt":  {query: "session_id=cs-1", status: 400},
		"two":       {query: "session_id=cs_1&session_id=cs_2", status: 400},
		"none":      {query: "", status: 200, public: true},
		"by hand":   {query: "session_id={CHECKOUT_SESSION_ID}", status: 200, public: true},
		"another's": {query: "other=cs_1", status: 200, public: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.sessions = map[string]ledger.Receipt{"pay.example.org cs_1": cardReceipt(1, "pi_1", ledger.StatusConfirmed)}
			w.err = c.err
			s := w.server(t)
			for _, accept := range []string{browser, "application/json"} {
				for _, method := range []string{"GET", "HEAD"} {
					res := send(t, s, method, "/v1/thanks?"+c.query, "", "Accept", accept, "Origin", "https://evil.example")
					require.Equal(t, c.status, res.StatusCode)
					require.Equal(t, c.public, res.Header.Get("Access-Control-Allow-Origin") == "*")
				}
			}
			page := read(t, send(t, s, "GET", "/v1/thanks?lang=de&"+c.query, "", "Accept", browser))
			for _, l := range text.Languages {
				require.Equal(t, !c.public && c.status != 400, strings.Contains(page, `<a href="?lang=`+l.Tag+`&amp;`+c.query+`" lang=`), "%s: what cannot be read is not repeated", l.Tag)
			}
		})
	}
}

func TestThanksPagePaymentStates(t *testing.T) {
	with := func(change func(*ledger.Receipt)) ledger.Receipt {
		r := cardReceipt(1, "pi_1", ledger.StatusConfirmed)
		change(&r)
		return r
	}
	withThanks := terms()
	withThanks.Thanks = "Your licence comes by e-mail."
	for want, r := range map[string]ledger.Receipt{
		"Thank you, you paid $42":           with(func(*ledger.Receipt) {}),
		"$10 of it was paid back to you.":   with(func(r *ledger.Receipt) { r.Refunded, r.RefundedCents = 10_00, 10_00 }),
		"Your payment of $42 is on its way": with(func(r *ledger.Receipt) { r.Status = ledger.StatusSeen }),
		"$42 refunded":                      with(func(r *ledger.Receipt) { r.Status, r.Refunded = ledger.StatusRefunded, 42_00 }),
		"Payment of $42 reversed":           with(func(r *ledger.Receipt) { r.Status = ledger.StatusReversed }),
		"Not paid":                          with(func(r *ledger.Receipt) { r.Status = ledger.StatusDropped }),
		"This was a test":                   with(func(r *ledger.Receipt) { r.Testnet = true }),
		"21 November 2026, 13:13 UTC":       with(func(*ledger.Receipt) {}),
		"Thank you, you paid 6,500 JPY":     with(func(r *ledger.Receipt) { r.Asset, r.Amount, r.USDCents = "JPY", 6_500, nil }),
	} {
		w := newWorld(t)
		w.offer = payoffertest.Offer(t, withThanks, "base")
		w.sessions = map[string]ledger.Receipt{"pay.example.org cs_1": r}
		page := read(t, send(t, w.server(t), "GET", "/v1/thanks?session_id=cs_1", "", "Accept", browser))
		require.Contains(t, page, want)
		require.Equal(t, r.Status == ledger.StatusConfirmed, strings.Contains(page, withThanks.Thanks), "%s: nobody is sent what is not paid", want)
		require.Equal(t, r.Status == ledger.StatusConfirmed, strings.Contains(page, "<p>"+withThanks.Name+"</p>"), "%s: what is paid", want)
		returned := r.Refunded > 0 || r.Status == ledger.StatusReversed
		require.Equal(t, returned, strings.Contains(page, `Write to the seller: <a href="mailto:pay@example.org">`), want)
		require.Equal(t, r.Testnet, strings.Contains(page, "No real money moved"), want)
		paid := r.Status == ledger.StatusConfirmed || r.Status == ledger.StatusSeen
		require.Contains(t, page, fmt.Sprintf(` data-paid="%t">`, paid), "%s: the browser asks before a second payment", want)
		require.Equal(t, r.Status == ledger.StatusConfirmed, strings.Contains(page, ">View receipt</a>"), want)
		require.Equal(t, r.Status != ledger.StatusConfirmed, strings.Contains(page, ">Your payment</a>"), "%s: what is no receipt is not called one", want)
		w.offer = payoffertest.Offer(t, terms(), "base")
		page = read(t, send(t, w.server(t), "GET", "/v1/thanks?session_id=cs_1", "", "Accept", browser))
		require.Equal(t, r.Status == ledger.StatusConfirmed, strings.Contains(page, "Thank you"), want)
	}
	w := newWorld(t)
	require.Contains(t, read(t, send(t, w.server(t), "GET", "/v1/thanks?session_id=cs_1", "", "Accept", browser)), "Waiting for your payment")
	w.healthOf("card").Blind = true
	unknown := read(t, send(t, w.server(t), "GET", "/v1/thanks?session_id=cs_1", "", "Accept", browser))
	require.Contains(t, unknown, "We cannot confirm card payments right now", "who is not told waits for nothing")
	require.Contains(t, unknown, `<a class="button" href="mailto:pay@example.org">`, "the seller knows")
}

func TestThanksPageWithoutCheckout(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	for _, status := range []ledger.Status{ledger.StatusConfirmed, ledger.StatusSeen, ledger.StatusRefunded} {
		w.receipts = []ledger.Receipt{cardReceipt(1, "pi_1", status)}
		for _, query := range []string{"", "?session_id=", "?session_id={CHECKOUT_SESSION_ID}", "?other=1"} {
			page := read(t, send(t, s, "GET", "/v1/thanks"+query, "", "Accept", browser))
			require.Contains(t, page, "Please do not pay again", status)
			require.NotContains(t, page, "13:13", "%s: when a stranger paid", status)
			require.NotContains(t, page, "data-arrive>", "nothing changes by itself")
			require.Contains(t, page, `<a class="button plain" href="mailto:pay@example.org">Write to the seller</a>`, "nothing more to do")
			require.NotContains(t, page, ` data-paid="`, "whoever opens it has not paid")
			require.Equal(t, map[string]any{"state": "none", "occurredAt": nil, "testnet": false, "payment": nil}, readJSON(t, send(t, s, "GET", "/v1/thanks"+query, "")), status)
		}
	}
	require.Zero(t, w.lookUps.Load())
}

func TestThanksPageRefusesInvalidSession(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	for _, query := range []string{
		"session_id=pi_1", "session_id=cs_", "session_id=cs_%3Cscript%3E", "session_id=cs_" + strings.Repeat("x", 253), "session_id=cs_1&session_id=cs_2",
		"session_id=cs_%00", "session_id=cs_%25", "session_id=%zz", "session_id=cs_a%22b", "session_id=cs_%C3%A4",
	} {
		for _, accept := range []string{browser, "application/json"} {
			res := send(t, s, "GET", "/v1/thanks?"+query, "", "Accept", accept)
			require.Equal(t, 400, res.StatusCode, query)
			body := read(t, res)
			require.Contains(t, body, text.Languages[0].Text("error.bad-session.title"))
			require.NotContains(t, strings.ToLower(body), "<script>")
			require.NotContains(t, body, "xxxx")
			require.Contains(t, body, "If you paid, your payment is safe: do not pay again.")
			require.NotContains(t, body, "CHECKOUT_SESSION_ID", "a payer cannot use it")
			require.NotContains(t, body, "/v1/pay\"", "a payer who paid is not asked to pay")
		}
	}
	require.Zero(t, w.lookUps.Load())
}

func TestThanksPageShowsThatItWaits(t *testing.T) {
	w := newWorld(t)
	w.sessions = map[string]ledger.Receipt{"pay.example.org cs_1": cardReceipt(1, "pi_1", ledger.StatusConfirmed)}
	s := w.server(t)
	const spinner = `<p class="wait" aria-hidden="true"></p>`
	waiting := read(t, send(t, s, "GET", "/v1/thanks?session_id=cs_2", "", "Accept", browser))
	require.Contains(t, waiting, spinner)
	require.Contains(t, waiting, "$42 by card. This usually takes a few seconds.")
	require.Contains(t, waiting, `Questions? <a href="mailto:pay@example.org">`)
	require.NotContains(t, read(t, send(t, s, "GET", "/v1/thanks?session_id=cs_1", "", "Accept", browser)), spinner)
	require.NotContains(t, read(t, send(t, s, "GET", "/v1/thanks", "", "Accept", browser)), spinner)
}

func TestThanksPageIsPrivate(t *testing.T) {
	w := newWorld(t)
	w.sessions = map[string]ledger.Receipt{"pay.example.org cs_1": cardReceipt(1, "pi_1", ledger.StatusConfirmed)}
	s := w.server(t)
	for _, l := range text.Languages {
		for _, query := range []string{"?lang=" + l.Tag, "?session_id=cs_1&lang=" + l.Tag, "?session_id=cs_2&lang=" + l.Tag} {
			for _, accept := range []string{browser, "application/json"} {
				res := send(t, s, "GET", "/v1/thanks"+query, "", "Accept", accept)
				require.Equal(t, []string{"no-store", "noindex", "no-referrer"},
					[]string{res.Header.Get("Cache-Control"), res.Header.Get("X-Robots-Tag"), res.Header.Get("Referrer-Policy")})
				if accept == browser {
					page := read(t, send(t, s, "GET", "/v1/thanks"+query, "", "Accept", accept))
					require.Contains(t, page, `<a href="https://www.example.org/">`+l.Text("layout.back", "name", "Example Org")+"</a>", "the way back says nothing of the checkout")
				}
				require.NotRegexp(t, `<(link|meta)[^>]*(session_id|cs_1)`, read(t, res), "the checkout stands in no link to others")
			}
		}
	}
}
