package wallet

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// resent requires that one payment without an answer is sent again and again, byte by byte, when the payer asks for it, and
// when the page is loaded or opened.
func resent(t *testing.T, m *market) {
	v := m.plain.enter(t).timed(t)
	press := func(name string) func() { return func() { v.press(t, name) } }
	reload := func() { v.done(t, "reload", nil) }
	reopen := func() { v.done(t, "close", nil); v.open(t) }
	v.open(t)
	send := press(payWithPurse)
	steps := []struct {
		weather
		again func()
	}{
		{weather{Does: "hold"}, press(again)},
		{weather{Does: "hold"}, reload},
		{weather{Does: "abort"}, reopen},
		// A proxy drops the payment.
		{weather{Does: "answer", Status: 402, Body: `{"x402Version":1,"error":"payment required","accepts":[]}`}, press(again)},
		{weather{Does: "lose"}, reopen},
	}
	for i, step := range steps {
		step.Of = "payment"
		v.weather(t, step.weather)
		send()
		if step.Does == "hold" {
			v.done(t, "held", nil)
		}
		if i == 0 {
			v.done(t, "pass", options{"milliseconds": 120_000}) // the answer never comes
		}
		if i != 1 {
			require.Equal(t, []string{again, other}, v.read(t, "No answer arrived.").names())
		}
		require.Len(t, v.stored(t), 1)
		send = step.again
	}
	send()
	v.requirePaid(t, seen)
	v.same(t, 1+len(steps))
}

// same requires that so many requests carried one payment, byte by byte, and that one was signed.
func (v *visitor) same(t *testing.T, requests int) {
	t.Helper()
	did := v.did(t)
	require.Len(t, did.Sent, requests)
	for _, sent := range did.Sent {
		require.Equal(t, did.Sent[0], sent)
	}
	require.Len(t, did.Wallets[0].Signed, 1)
}

func unavailable(t *testing.T, m *market) {
	s := m.open(t, nil) // it remembers for a while what its facilitator did
	v := s.timed(t)
	v.open(t)
	m.line.Store(isDown)
	v.press(t, payWithPurse)
	page := v.readIn(t, "first", "We retry for you in", options{})
	require.Contains(t, page.Status, "Not confirmed yet.")
	require.Contains(t, page.Status, "Sending it again cannot charge you twice.")
	require.NotContains(t, page.Status, "The server says", "its words are for software")
	require.NotContains(t, page.Text, "Retry-After")
	require.Equal(t, []string{other}, page.names())
	require.Equal(t, "Wait for confirmation", page.Step)
	v.picture(t, "arrives")
	v.requireAsks(t, "first")
	require.Len(t, v.stored(t), 1)
	s.requirePaid(t, 0)
	m.line.Store(works)
	v.done(t, "pass", options{"milliseconds": 60_000})
	v.requirePaid(t, seen)
	v.same(t, 2)
}

func unknown(t *testing.T, m *market) {
	s := m.open(t, nil)
	v := s.timed(t)
	v.open(t)
	m.line.Store(losesPaid)
	v.press(t, payWithPurse)
	server.Eventually(t, "the server reads the payment on the chain", func() bool { return server.Confirmed(s.url, "usdc") == 1 })
	// The server may read the chain before it answers.
	for !strings.Contains(v.readIn(t, "first", "You paid|We retry for you in", options{}).Text, "You paid $42") {
		v.done(t, "pass", options{"milliseconds": 12_000})
	}
	v.requirePaid(t, seen)
	v.same(t, len(v.did(t).Sent))
}

func down(t *testing.T, m *market) {
	s := m.open(t, nil)
	v := s.visit(t, holding("eth_signTypedData_v4"))
	v.open(t)
	v.press(t, payWithPurse)
	v.done(t, "holds", nil)
	s.Kill()
	v.done(t, "answers", nil)
	v.read(t, "No answer arrived.")
	require.Len(t, v.stored(t), 1)
	s.requirePaid(t, 0)
	v.press(t, again)
	v.read(t, "No answer arrived.")
	s.start(t)
	v.press(t, again)
	v.requirePaid(t, seen)
	sent := len(v.did(t).Sent)
	require.GreaterOrEqual(t, sent, 3, "a server that has just started may ask for one more")
	v.same(t, sent)
}

func tabs(t *testing.T, m *market) {
	s := m.plain.enter(t)
	v := s.visit(t, holding("eth_signTypedData_v4"))
	v.open(t)
	v.openIn(t, "second", "/v1/pay#usdc")
	v.press(t, payWithPurse)
	v.done(t, "holds", nil)
	v.done(t, "press", options{"tab": "second", "name": payWithPurse})
	require.Contains(t, v.readIn(t, "second", "under way in another tab", options{"idle": true}).Status, "Continue there.")
	v.weather(t, weather{Of: "payment", Does: "lose"})
	v.done(t, "answers", nil)
	v.read(t, "No answer arrived.")
	second := v.readIn(t, "second", again, options{"idle": true}) // it learned of it
	require.Equal(t, []string{again, other}, second.names())
	v.press(t, again)
	v.requirePaid(t, seen)
	second = v.readIn(t, "second", "You paid $42", options{"idle": true})
	require.Equal(t, []string{once}, second.names(), "it was paid")
	require.Len(t, second.Links, 1)
	v.same(t, 2)
}

// Where there are no locks two tabs may have it signed at once, and only one of the two is ever sent.
func tabsWithoutLocks(t *testing.T, m *market) {
	s := m.plain.enter(t)
	v := s.visitAs(t, options{"noLocks": true}, s.buyer(), holding("eth_signTypedData_v4"))
	v.open(t)
	v.press(t, payWithPurse)
	v.done(t, "holds", nil)
	v.become(t, options{"hold": ""})
	v.openIn(t, "second", "/v1/pay#usdc")
	v.weather(t, weather{Of: "payment", Does: "lose"})
	v.done(t, "press", options{"tab": "second", "name": payWithPurse})
	v.readIn(t, "second", "No answer arrived.", options{"idle": true})
	v.done(t, "answers", nil)
	require.Equal(t, []string{again, other}, v.read(t, "You already have a payment on Base Sepolia (test network). Nothing else was sent.").names())
	v.press(t, again)
	v.requirePaid(t, seen)
	did := v.did(t)
	require.Len(t, did.Wallets[0].Signed, 2)
	require.Len(t, did.Sent, 2)
	require.Equal(t, did.Sent[0], did.Sent[1])
}

// garbled are answers that decide nothing, each to the same payment.
func garbled(t *testing.T, m *market) {
	v := m.plain.enter(t).visit(t)
	v.open(t)
	const lost, conflict = "No answer arrived.", "Another payment of this payer is not decided yet; this one was not sent."
	button, sent := payWithPurse, 0
	for name, c := range map[string]struct {
		weather
		said string
	}{
		"a page of a proxy":          {weather{Status: 200, Body: "<html>welcome"}, lost},
		"a 200 that says no":         {weather{Status: 200, Body: `{"success":false}`}, lost},
		"half an answer":             {weather{Status: 200, Body: `{"success":tr`}, lost},
		"null":                       {weather{Status: 200, Body: `null`}, lost},
		"a 402 without words":        {weather{Status: 402, Body: `[]`}, lost},
		"a bad gateway":              {weather{Status: 502, Body: "<html>bad gateway"}, lost},
		"a redirect":                 {weather{Status: 302, Headers: map[string]string{"Location": "/v1/pay"}}, lost},
		"a 503 without a time":       {weather{Status: 503, Body: "{}"}, lost},
		"another payment in the way": {weather{Status: 409, Body: `{"detail":"` + conflict + `"}`}, conflict},
	} {
		t.Run(name, func(t *testing.T) {
			c.Of, c.Does = "payment", "answer"
			v.weather(t, c.weather)
			v.press(t, button)
			page := v.read(t, c.said)
			require.Equal(t, []string{again, other}, page.names())
			require.Equal(t, c.said == conflict, strings.Contains(page.Status, "Not confirmed yet."))
			require.Len(t, v.stored(t), 1)
			button, sent = again, sent+1
			v.same(t, sent)
		})
	}
	v.shop.requirePaid(t, 0)
	v.press(t, again)
	v.requirePaid(t, seen)
	v.same(t, sent+1)
}

func refused(t *testing.T, m *market) {
	s := m.plain.enter(t)
	v := s.visitAs(t, options{}, s.chain.NewBuyer(t))
	v.open(t)
	// The money leaves between the look at the balance and the settlement.
	v.become(t, options{"hold": "eth_signTypedData_v4"})
	v.press(t, payWithPurse)
	v.done(t, "holds", nil)
	a := chain.NewAuthorization(t, chain.Address(v.key), chain.Wallet, chain.Funds/10)
	_, err := s.chain.Send(s.chain.USDC, a.Call(t, a.Sign(t, v.key)))
	require.NoError(t, err)
	s.chain.Mine(t, 1)
	v.done(t, "answers", nil)
	page := v.read(t, "The payment was refused. You were not charged. The server says:")
	require.Equal(t, []string{payWithPurse}, page.names())
	require.NotContains(t, page.Status, "invalid_exact", "no code of the protocol")
	require.Empty(t, v.stored(t))
	s.requirePaid(t, 0)
}

func foreignReceipt(t *testing.T, m *market) {
	s := m.plain.enter(t)
	v := s.visit(t)
	v.open(t)
	for name, url := range map[string]string{"a script": "javascript:alert(1)", "another host": "https://evil.example/v1/receipt/x", "a longer name": s.url + ".evil.example/"} {
		t.Run(name, func(t *testing.T) {
			body, err := json.Marshal(map[string]any{"success": true, "status": "claimed", "amountUsd": 42, "receiptUrl": url})
			require.NoError(t, err)
			v.weather(t, weather{Of: "payment", Does: "answer", Status: 200, Body: string(body)})
			v.press(t, payWithPurse)
			for range 2 {
				page := v.read(t, "You paid $42 That was an earlier payment of yours.")
				require.Empty(t, page.Links)
				require.Equal(t, []string{once}, page.names())
				v.done(t, "reload", nil)
			}
			v.press(t, once)
			v.press(t, onceYes)
			v.read(t, payWithPurse)
		})
	}
	s.requirePaid(t, 0)
}
