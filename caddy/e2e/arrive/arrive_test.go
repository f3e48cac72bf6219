package arrive

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/browser"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// price is 42 USDC in atomic units.
const price = 42_000_000

const (
	arrived = "#arrived"
	live    = "#live"
)

func TestOpenPagesTellWhatArrives(t *testing.T) {
	s, b := openShop(t), browser.Start(t)
	pay, report := b.Open(t, s.url+"/v1/pay", false), b.Open(t, s.url+"/v1/received", false)
	german := b.Open(t, s.url+"/v1/pay?lang=de", false)
	report.Await(t, live, "No payment") // it is there before the first payment
	require.Empty(t, pay.Read(t, arrived).Text)

	// By card: the processor's webhook.
	s.card("completed", "first", "paid")
	pay.Await(t, arrived, "42.00 USD")
	card := pay.Read(t, arrived).Text
	require.Contains(t, card, "Received")
	require.Contains(t, card, "confirmed")
	require.Contains(t, card, "cannot tell whose payment it is")
	require.NotContains(t, card, "pi_first")
	german.Await(t, arrived, "42,00 USD")
	require.Contains(t, german.Read(t, arrived).Text, "Eingegangen")
	report.Await(t, live, "1 payment received")
	report.Act(t, "#evidence > summary", "click")
	pay.Picture(t, "arrive-pay-card")

	// By a wallet: first seen, then sure, on the same page.
	s.chain.Pay(t, s.payee, price)
	s.chain.Mine(t, 1)
	pay.Await(t, arrived, "Seen, not confirmed yet")
	require.Contains(t, pay.Read(t, arrived).Text, "42 USDC")
	require.Contains(t, pay.Read(t, arrived).Text, "seen, not sure yet")
	pay.Picture(t, "arrive-pay-seen")
	s.chain.Finalize(t)
	german.Await(t, arrived, "42 USDC, USDC")
	s.eventually("the transfer is sure", func() bool { return !strings.Contains(pay.Read(t, arrived).Text, "Seen, not confirmed yet") })
	require.Contains(t, pay.Read(t, arrived).Text, "42 USDC")
	report.Await(t, "tbody", "42 USDC") // which is test money, and counts for none beside that of the card

	// By Bitcoin, of which the reload makes the server look at once. It disturbs no open page.
	coins := s.coins.Payment(t, bitcoinAddress, 70_000)
	s.coins.Mine(t, coins)
	s.coins.MineEmpty(t, 1)
	s.reload("The same payment, said otherwise.")
	pay.Await(t, arrived, "0.0007 BTC")
	s.eventually("Bitcoin is received", func() bool { return !strings.Contains(pay.Read(t, arrived).Text, "Seen, not confirmed yet") })
	report.Await(t, "tbody", "0.0007 BTC")
	report.Await(t, "#evidence", coins.TxHash().String())
	require.Contains(t, report.Read(t, "#evidence").Text, "pi_first", "what was opened stays open")
	pay.Picture(t, "arrive-pay-all")
	report.Picture(t, "arrive-received")

	for _, tab := range []*browser.Tab{pay, german, report} {
		shown := tab.Read(t, "main")
		require.Equal(t, 1, shown.Loads, "no page was loaded again")
		require.Empty(t, shown.Messages)
	}

	// A phone that has thrown the tab away shows what arrived meanwhile, and a new tab nothing of it.
	pay.Return(t)
	pay.Await(t, arrived, "0.0007 BTC")
	require.Contains(t, pay.Read(t, arrived).Text, "42.00 USD")
	fresh := b.Open(t, s.url+"/v1/pay", false)
	require.Empty(t, fresh.Read(t, arrived).Text)
}

func TestTheReturnAddressWaitsForTheWebhookOfItsCheckout(t *testing.T) {
	s, b := openShop(t), browser.Start(t)
	tabs := map[string]*browser.Tab{}
	for name, query := range map[string]string{
		"mine": "?session_id=cs_live_mine", "delayed": "?session_id=cs_live_delayed", "made up": "?session_id=cs_live_min",
		"a template": "?session_id={CHECKOUT_SESSION_ID}", "none": "",
	} {
		tabs[name] = b.Open(t, s.url+"/v1/thanks"+query, false)
	}
	for _, name := range []string{"mine", "delayed", "made up"} {
		require.Contains(t, tabs[name].Read(t, live).Text, "Waiting for the card processor")
	}
	require.Contains(t, tabs["none"].Read(t, live).Text, "No payment seen just now")
	tabs["mine"].Picture(t, "arrive-thanks-waiting")

	s.card("completed", "mine", "paid")
	s.card("completed", "delayed", "unpaid")
	tabs["mine"].Await(t, live, "Received: 42.00 USD")
	require.Contains(t, tabs["mine"].Read(t, live).Text, "Your licence comes by e-mail.")
	require.Contains(t, tabs["mine"].Read(t, live).Text, "Your receipt")
	tabs["mine"].Picture(t, "arrive-thanks-received")
	tabs["delayed"].Await(t, live, "Under way: 42.00 USD")
	for _, name := range []string{"none", "a template"} {
		tabs[name].Await(t, live, "A payment")
		shown := tabs[name].Read(t, live).Text
		require.Contains(t, shown, "cannot tell whose it is")
		require.NotContains(t, shown, "42")
		require.NotContains(t, shown, "receipt")
	}
	require.Contains(t, tabs["made up"].Read(t, live).Text, "Waiting for the card processor", "it is of another checkout")
	require.NotContains(t, s.get("/v1/thanks", "text/html"), "/v1/receipt/")

	s.card("async_payment_failed", "delayed", "unpaid")
	tabs["delayed"].Await(t, live, "Not paid")
	for name, tab := range tabs {
		require.Equal(t, 1, tab.Read(t, "main").Loads, name)
		require.Empty(t, tab.Read(t, "main").Messages, name)
	}
}

func TestPagesAskSeldomWhileNobodyLooks(t *testing.T) {
	b, service := browser.Start(t), server.StartShipped(t).Service
	tab := b.Open(t, service+"/v1/thanks", true)
	require.Equal(t, []int{4, 8, 12, 16, 20}, tab.Pass(t, 20, 1))
	tab.Turn(t, true)
	require.Equal(t, []int{15, 30, 45, 60}, tab.Pass(t, 60, 1))
	tab.Turn(t, false)
	require.Equal(t, []int{4, 8}, tab.Pass(t, 8, 1))
	answers := tab.Read(t, live).Answers
	for i, status := range answers {
		require.Equal(t, i > 0, status == 304, "nothing changes: %v", answers)
	}

	const stopped = "Reload it to look again"
	tab.Turn(t, true)
	require.Len(t, tab.Pass(t, 3_600, 60), 60, "the last a moment before the hour is over")
	require.Empty(t, tab.Pass(t, 600, 60), "nobody is here")
	require.Contains(t, tab.Read(t, "main").Text, stopped)
	tab.Turn(t, false)
	require.NotContains(t, tab.Read(t, "main").Text, stopped)
	require.Equal(t, []int{4, 8}, tab.Pass(t, 8, 1), "somebody is back")
}
