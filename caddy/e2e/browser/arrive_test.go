package browser

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// price is 42 USDC in atomic units.
const price = 42_000_000

const (
	arrived = "#arrived"
	live    = "#live"
)

// TestPagesShowReceivedPayment shares a shop and a browser. What arrived for one test is there for the next.
func TestPagesShowReceivedPayment(t *testing.T) {
	s, b := openShop(t), Start(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *shop, *Browser)
	}{
		{"a payment page asks only visitors who used its method", asksWhoUsedIt},
		{"the return address waits for the webhook of its checkout", returnsAndWaits},
		{"a payment by card is followed by a question", paysByCard},
		{"a failed payment by card is not followed by a question", failsByCard},
		{"a payment by Bitcoin is followed by a question", paysByBitcoin},
		{"the page of a Lightning invoice becomes its receipt", paysByLightning},
		{"pages ask seldom while nobody looks", asksSeldom},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, s, b)
			b.CloseAll(t)
		})
	}
}

// A payer presses the button, pays with a phone, and sees it on the page, which is not loaded again.
func paysByLightning(t *testing.T, s *shop, b *Browser) {
	tab := b.Open(t, s.url+"/v1/pay#lightning", false)
	made := len(s.wallet.Invoices()) // a start makes one
	tab.Act(t, "#lightning form button", "click")
	tab.Await(t, live, "Waiting for payment")
	invoices := s.wallet.Invoices()
	require.Len(t, invoices, made+1)
	paid := invoices[made]
	shown := tab.Read(t, live)
	require.Contains(t, shown.Text, "60 minutes left, until ")
	require.Contains(t, shown.Text, "Open in your wallet")
	s.wallet.Pay(t, paid.Hash)
	tab.Await(t, live, "The payment has arrived.")
	after := tab.Read(t, live)
	require.Equal(t, shown.Loads, after.Loads, "the page changes in place")
	require.Empty(t, after.Messages)
	require.NotContains(t, after.Text, "Waiting for payment")
	require.NotContains(t, after.Text, "Open in your wallet")
	tab.Picture(t, "arrive-lightning-received")
}

// Strangers pay by every method while pages are open. A page asks about payments by the methods that its visitor used, and
// about no others; an idle page does not even ask the server.
func asksWhoUsedIt(t *testing.T, s *shop, b *Browser) {
	idle := b.Open(t, s.url+"/v1/pay", true)
	report := b.Open(t, s.url+"/v1/received", false)
	used := map[string]*Tab{}
	for _, rail := range []string{"card", "usdc", "btc", "transfer", "tip-jar"} {
		used[rail] = b.Open(t, s.url+"/v1/pay?lang=de", false)
		used[rail].Act(t, ".way:has(#"+rail+") > summary", "click")
	}
	linked := b.Open(t, s.url+"/v1/pay#btc", false)
	asking := []*Tab{used["usdc"], used["btc"], used["transfer"], linked}
	server.Eventually(t, "the pages know the newest payment", func() bool {
		return !slices.ContainsFunc(asking, func(tab *Tab) bool { return len(tab.Read(t, "main").Answers) == 0 })
	})

	s.card("completed", "first", "paid")
	report.Act(t, "#evidence > summary", "click")
	s.chain.Pay(t, s.payee, price)
	s.chain.Mine(t, 1)
	report.Await(t, "tbody", "pending") // the page of received payments follows all
	s.chain.Finalize(t)
	s.record()
	// The reload makes the server look for Bitcoin at once. It disturbs no open page.
	coins := s.coins.Payment(t, bitcoinAddress, 70_000)
	s.coins.Mine(t, coins)
	s.coins.MineEmpty(t, 1)
	s.reload("The same payment, said otherwise.")
	for _, paid := range []string{"42 USDC", "0.0007 BTC", "$42", "$43"} {
		report.Await(t, "tbody", paid)
	}
	report.Await(t, "#evidence", coins.TxHash().String())
	require.Contains(t, report.Read(t, "#evidence").Text, "pi_live_first", "what was opened stays open")
	report.Picture(t, "arrive-received")

	used["usdc"].Await(t, arrived, "42 USDC")
	used["btc"].Await(t, arrived, "0,0007 BTC")
	used["transfer"].Await(t, arrived, "43\u00a0$")
	linked.Await(t, arrived, "0.0007 BTC")
	for name, tab := range map[string]*Tab{"usdc": used["usdc"], "btc": used["btc"], "transfer": used["transfer"]} {
		asked := tab.Read(t, arrived).Text
		require.Contains(t, asked, "Ist es Ihre?", name)
		require.Equal(t, 1, strings.Count(asked, "$")+strings.Count(asked, "BTC,")+strings.Count(asked, "42 USDC,"), "%s: strangers used other methods: %s", name, asked)
		require.NotContains(t, asked, "Eingegangen", name)
	}
	require.Contains(t, linked.Read(t, arrived).Text, "Is it yours?")
	linked.Picture(t, "arrive-question")
	require.Empty(t, idle.Pass(t, 60, 4), "the idle page asks for nothing")
	require.Empty(t, idle.Read(t, arrived).Text)
	for _, rail := range []string{"card", "tip-jar"} {
		require.Empty(t, used[rail].Read(t, "main").Answers, rail)
		require.Empty(t, used[rail].Read(t, arrived).Text, rail)
	}
	idle.Act(t, ".way:has(#btc) > summary", "click")
	require.NotEmpty(t, idle.Pass(t, 8, 4))
	require.Empty(t, idle.Read(t, arrived).Text, "the payment came before the visitor used Bitcoin")

	for _, tab := range append(asking, idle, report, used["card"]) {
		shown := tab.Read(t, "main")
		require.Equal(t, 1, shown.Loads, "no page was loaded again")
		require.Empty(t, shown.Messages)
	}
	// A phone that has thrown the tab away still asks.
	used["btc"].Return(t)
	used["btc"].Await(t, arrived, "0,0007 BTC")
}

func returnsAndWaits(t *testing.T, s *shop, b *Browser) {
	tabs := map[string]*Tab{}
	for name, query := range map[string]string{
		"mine": "?session_id=cs_live_mine", "delayed": "?session_id=cs_live_delayed", "made up": "?session_id=cs_live_min",
		"a template": "?session_id={CHECKOUT_SESSION_ID}", "none": "",
	} {
		tabs[name] = b.Open(t, s.url+"/v1/thanks"+query, false)
	}
	for _, name := range []string{"mine", "delayed", "made up"} {
		require.Contains(t, tabs[name].Read(t, live).Text, "Waiting for your payment")
	}
	require.Contains(t, tabs["none"].Read(t, live).Text, "If you paid, you are done.")
	tabs["mine"].Picture(t, "arrive-thanks-waiting")

	s.card("completed", "mine", "paid")
	s.card("completed", "delayed", "unpaid")
	tabs["mine"].Await(t, live, "Thank you, you paid $42")
	require.Contains(t, tabs["mine"].Read(t, live).Text, "Your licence comes by e-mail.")
	require.Contains(t, tabs["mine"].Read(t, live).Text, "View receipt")
	tabs["mine"].Picture(t, "arrive-thanks-received")
	tabs["delayed"].Await(t, live, "Your payment of $42 is on its way")
	for _, name := range []string{"none", "a template"} {
		shown := tabs[name].Read(t, live)
		require.Contains(t, shown.Text, "Please do not pay again")
		require.NotContains(t, shown.Text, "42")
		require.NotContains(t, shown.Text, "receipt")
		require.Empty(t, shown.Answers, "it asks for nothing")
	}
	require.Contains(t, tabs["made up"].Read(t, live).Text, "Waiting for your payment", "it is of another checkout")
	require.NotContains(t, server.Get(t, s.url+"/v1/thanks", "text/html"), "/v1/receipt/")

	s.card("async_payment_failed", "delayed", "unpaid")
	tabs["delayed"].Await(t, live, "Not paid")
	for name, tab := range tabs {
		require.Equal(t, 1, tab.Read(t, "main").Loads, name)
		require.Empty(t, tab.Read(t, "main").Messages, name)
	}
}

func asksSeldom(t *testing.T, s *shop, b *Browser) {
	tab := b.Open(t, s.url+"/v1/thanks?session_id=cs_live_1", true)
	require.Equal(t, []int{4, 8, 12}, tab.Pass(t, 12, 1))
	tab.Turn(t, true)
	require.Equal(t, []int{15, 30, 45, 60}, tab.Pass(t, 60, 5))
	tab.Turn(t, false)
	require.Equal(t, []int{4, 8}, tab.Pass(t, 8, 2))

	const stopped = "Reload it to look again"
	tab.Turn(t, true)
	require.Contains(t, tab.Pass(t, 3_600, 300), 3_600, "the last time a moment before the hour is over")
	require.Empty(t, tab.Pass(t, 600, 300), "nobody is here")
	require.Contains(t, tab.Read(t, "main").Text, stopped)
	tab.Turn(t, false)
	require.NotContains(t, tab.Read(t, "main").Text, stopped)
	require.Equal(t, []int{4, 8}, tab.Pass(t, 8, 2), "somebody is back")
}
