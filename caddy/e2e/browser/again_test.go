package browser

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

const (
	paidAlready = "You have already paid"
	isItYours   = "A payment just arrived. Is it yours?"
	yesMine     = arrived + " a"
	noAgain     = arrived + " button"
)

// requireQuestion requires that a page asks before a second payment, and leads nowhere but to the page of the first.
func requireQuestion(t *testing.T, tab *Tab, question, to string) {
	t.Helper()
	tab.Await(t, arrived, question)
	require.Equal(t, []string{to}, tab.Leads(t))
	require.NotContains(t, tab.Read(t, "main").Text, "Nothing is charged before you confirm")
	require.NotContains(t, tab.Read(t, "section").Text, "Bitcoin\n", "no other method is in view")
}

// paysByCard comes back from the checkout. No way to the payment page leads to a checkout without a question.
func paysByCard(t *testing.T, s *shop, b *Browser) {
	pay, thanks := s.url+"/v1/pay", s.url+"/v1/thanks?session_id=cs_live_once"
	tab := b.Open(t, pay, false)
	require.Contains(t, tab.Leads(t), "https://checkout.example/pay")
	tab.Act(t, "#card a.button", "click")
	tab.Go(t, thanks)
	tab.Await(t, live, "Waiting for your payment")
	tab.Go(t, pay)
	requireQuestion(t, tab, paidAlready, thanks)
	tab.Act(t, yesMine, "click")
	s.card("completed", "once", "paid")
	tab.Await(t, live, "Thank you, you paid $42")
	tab.Back(t)
	requireQuestion(t, tab, paidAlready, thanks)
	tab.Return(t)
	requireQuestion(t, tab, paidAlready, thanks)
	tab.Picture(t, "again-card")
	tab.Go(t, s.url+"/v1/pay/transfer")
	requireQuestion(t, tab, paidAlready, thanks)
	tab.Go(t, s.url+"/v1/thanks")
	require.Contains(t, tab.Read(t, live).Text, "View payment status")
	require.Contains(t, tab.Leads(t), thanks, "the page without a checkout leads to the known payment")
	require.NotContains(t, b.Open(t, s.url+"/v1/thanks", false).Leads(t), thanks, "of another browser")
	tab.Go(t, pay+"?lang=de#btc")
	requireQuestion(t, tab, "Sie haben schon bezahlt", thanks)

	tab.Act(t, noAgain, "click")
	require.Contains(t, strings.Join(tab.Leads(t), " "), "bitcoin:")
	tab.Go(t, pay)
	require.Contains(t, tab.Leads(t), "https://checkout.example/pay", "the question is answered")
	require.Empty(t, tab.Read(t, "main").Messages)
}

// failsByCard may pay again without a question: the checkout took no money.
func failsByCard(t *testing.T, s *shop, b *Browser) {
	pay, thanks := s.url+"/v1/pay", s.url+"/v1/thanks?session_id=cs_live_failing"
	s.card("completed", "failing", "unpaid")
	tab := b.Open(t, thanks, false)
	tab.Await(t, live, "Your payment of $42 is on its way")
	tab.Go(t, pay)
	requireQuestion(t, tab, paidAlready, thanks)
	tab.Back(t)
	s.card("async_payment_failed", "failing", "unpaid")
	tab.Await(t, live, "Not paid")
	tab.Go(t, pay)
	require.Contains(t, tab.Leads(t), "https://checkout.example/pay")
	require.Empty(t, tab.Read(t, arrived).Text)
}

// paysByBitcoin sees the question on the page that was open, whatever happens to it until it is answered.
func paysByBitcoin(t *testing.T, s *shop, b *Browser) {
	pay, thanks := s.url+"/v1/pay", s.url+"/v1/thanks"
	payer, other := b.Open(t, pay, false), b.Open(t, pay, false)
	require.NotContains(t, payer.Read(t, "section").Text, "Waiting for your payment")
	for _, tab := range []*Tab{payer, other} {
		tab.Act(t, ".way:has(#btc) > summary", "click")
		tab.Await(t, "#btc", "Waiting for your payment")
		server.Eventually(t, "the page knows the newest payment", func() bool { return len(tab.Read(t, "main").Answers) > 0 })
	}
	coins := s.coins.Payment(t, bitcoinAddress, 80_000)
	s.coins.Mine(t, coins)
	s.coins.MineEmpty(t, 1)
	s.reload("The server looks for Bitcoin at once.")

	requireQuestion(t, payer, isItYours, thanks)
	require.Contains(t, payer.Read(t, arrived).Text, "0.0008 BTC")
	require.Equal(t, "Yes, it is mine", payer.Read(t, ":focus").Text, "the row that had the focus is hidden")
	payer.Picture(t, "again-bitcoin")
	payer.Return(t)
	requireQuestion(t, payer, isItYours, thanks)
	payer.Act(t, yesMine, "click")
	payer.Await(t, live, "Please do not pay again")
	payer.Back(t)
	requireQuestion(t, payer, paidAlready, thanks)
	payer.Return(t)
	requireQuestion(t, payer, paidAlready, thanks)
	payer.Act(t, noAgain, "click")
	require.Contains(t, payer.Leads(t), "https://checkout.example/pay")

	requireQuestion(t, other, isItYours, thanks)
	other.Act(t, noAgain, "click")
	require.Contains(t, strings.Join(other.Leads(t), " "), "bitcoin:", "the row that was open")
	looked := len(other.Read(t, "main").Answers)
	other.Return(t)
	server.Eventually(t, "the page looked again", func() bool { return len(other.Read(t, "main").Answers) > looked })
	require.Empty(t, other.Read(t, arrived).Text, "it was a stranger's")
	require.Contains(t, other.Leads(t), "https://checkout.example/pay")
	for _, tab := range []*Tab{payer, other} {
		require.Empty(t, tab.Read(t, "main").Messages)
	}
}
