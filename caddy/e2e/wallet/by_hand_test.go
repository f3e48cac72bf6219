package wallet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

const (
	waiting = "Waiting for your payment… Usual time: About a minute."
	yours   = "A payment just arrived. Is it yours?"
)

// sent has somebody send the price from a wallet elsewhere, and returns when the server counts it.
func (s *shop) sent(t *testing.T) {
	t.Helper()
	counted := server.Confirmed(s.url, "usdc")
	s.chain.Pay(t, s.payee, price)
	s.chain.Mine(t, 1)
	server.Eventually(t, "the payment is counted", func() bool { return server.Confirmed(s.url, "usdc") > counted })
}

// polls waits until the page has looked for new payments once more.
func (v *visitor) polls(t *testing.T) {
	t.Helper()
	v.done(t, "polls", nil)
}

// byHand sends USDC from a wallet elsewhere. The page waits and asks once, with a wallet in the browser and without one, and
// also if the phone has thrown the tab away.
func byHand(t *testing.T, m *market) {
	s := m.plain.enter(t)
	for name, given := range map[string]options{"beside a wallet in the browser": {}, "without one": {"wallets": []purse{}}} {
		t.Run(name, func(t *testing.T) {
			v := s.visitAs(t, given, s.buyer())
			v.openIn(t, "first", "/v1/pay")
			v.done(t, "unfold", options{"rail": "usdc"})
			if name == "beside a wallet in the browser" {
				require.NotContains(t, v.page(t), waiting)
				v.done(t, "choose", options{"name": "Another wallet"})
			}
			require.Contains(t, v.page(t), waiting)
			v.polls(t)
			require.NotContains(t, v.page(t), yours)
			v.picture(t, "waits "+name)
			s.sent(t)
			v.polls(t)
			require.Contains(t, v.page(t), yours)
			v.done(t, "reload", nil)
			v.polls(t)
			require.Contains(t, v.page(t), yours)
			v.done(t, "answer", options{"name": "No, keep paying"})
			v.done(t, "reload", nil)
			v.polls(t)
			require.NotContains(t, v.page(t), yours, "it asks once")
			v.did(t)
		})
	}
}

// notByHand pays from the wallet in the browser after a look at the values to send by hand, and while strangers send theirs.
func notByHand(t *testing.T, m *market) {
	s := m.plain.enter(t)
	v := s.visit(t, holding("eth_signTypedData_v4"))
	v.open(t)
	v.read(t, payWithPurse)
	v.done(t, "unfold", options{"rail": "card"})
	v.done(t, "unfold", options{"rail": "usdc"})
	s.sent(t)
	v.done(t, "choose", options{"name": "Another wallet"})
	v.polls(t)
	require.NotContains(t, v.page(t), yours, "before the payer chose to send by hand")
	v.done(t, "choose", options{"name": "In this browser"})
	s.sent(t)
	v.polls(t)
	require.NotContains(t, v.page(t), yours, "while a wallet in the browser is shown")
	v.press(t, payWithPurse)
	v.done(t, "holds", nil)
	s.sent(t)
	v.polls(t)
	require.NotContains(t, v.page(t), yours, "while it is used")
	v.done(t, "answers", nil)
	v.read(t, "You paid $42")
	v.press(t, once)
	v.press(t, onceYes)
	v.read(t, payWithPurse)
	v.done(t, "choose", options{"name": "Another wallet"})
	require.Contains(t, v.page(t), waiting)
	v.polls(t)
	require.NotContains(t, v.page(t), yours, "these came before")

	// Another tab pays while this one waits.
	v.openIn(t, "second", "/v1/pay#usdc")
	pressThere := func(name string) { v.done(t, "press", options{"tab": "second", "name": name}) }
	pressThere(payWithPurse)
	v.readIn(t, "first", "You paid $42", options{"idle": true})
	v.polls(t)
	pressThere(once)
	pressThere(onceYes)
	v.readIn(t, "second", payWithPurse, options{"idle": true})
	v.polls(t)
	require.NotContains(t, v.page(t), yours, "after a payment in another tab")
	require.Contains(t, v.page(t), waiting)
	v.did(t)
	s.requirePaid(t, 5)
}
