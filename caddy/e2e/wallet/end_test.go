package wallet

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
)

// place is where the browser keeps what it knows of a payment.
func (v *visitor) place() string {
	return "pay-offer " + strings.TrimPrefix(v.shop.url, "http://") + " eip155:84532"
}

// keptReceipt reloads the page after a payment, in the language that its address asks for.
func keptReceipt(t *testing.T, m *market) {
	s := m.plain.enter(t)
	v := s.visit(t)
	v.openIn(t, "first", "/v1/pay?lang=de#usdc")
	v.press(t, "Zahlen mit Purse")
	paid := v.read(t, "Sie haben 42 $ bezahlt")
	require.Equal(t, "Quittung ansehen", paid.Focus)
	require.Len(t, paid.Links, 1)
	require.Regexp(t, `/v1/receipt/[^?]+\?lang=de$`, paid.Links[0])
	v.done(t, "close", nil)

	v.open(t)
	again := v.read(t, seen)
	require.Equal(t, []string{paid.Links[0][:len(paid.Links[0])-len("?lang=de")]}, again.Links, "this page's address asks for no language")
	require.Equal(t, []string{once}, again.names())
	v.same(t, 1)
	v.press(t, once)
	v.press(t, onceYes)
	require.Equal(t, []string{payWithPurse}, v.read(t, payWithPurse).names())
	require.Empty(t, v.stored(t))
	v.press(t, payWithPurse)
	v.read(t, seen)
	s.requirePaid(t, 2)
}

// slept is told nothing of what other tabs store. It looks when it wakes, and before anything is asked.
func slept(t *testing.T, m *market) {
	s := m.plain.enter(t)
	v := s.visit(t)
	v.open(t)
	for name, wake := range map[string]func(){
		"when it is shown":   func() { v.done(t, "thaw", nil) },
		"when one would pay": func() { v.press(t, payWithPurse) },
	} {
		t.Run(name, func(t *testing.T) {
			v.read(t, payWithPurse)
			v.done(t, "keep", options{"key": v.place(), "value": `{"said":"claimed","paid":42,"receipt":""}`}) // no tab is told of its own
			wake()
			page := v.read(t, "You paid $42")
			require.Equal(t, []string{once}, page.names())
			require.Empty(t, page.Links)
			require.Empty(t, v.did(t).Wallets[0].Calls)
			require.Empty(t, v.did(t).Sent)
			v.press(t, once)
			v.press(t, onceYes)
		})
	}
	s.requirePaid(t, 0)
}

// left is a wallet that does not answer and is left, wherever it is. What it answers too late is heard by nobody, and another
// tab can pay meanwhile.
func left(t *testing.T, m *market) {
	for name, tab := range map[string]string{"the answers come while one pays": "second", "the answers come last": "first"} {
		t.Run(name, func(t *testing.T) {
			s := m.plain.enter(t)
			v := s.visit(t)
			v.open(t)
			for method, network := range map[string]string{
				"eth_requestAccounts": baseSepolia, "wallet_switchEthereumChain": mainnet, "eth_call": baseSepolia, "eth_signTypedData_v4": baseSepolia,
			} {
				v.wallet(t, on(network), holding(method))
				v.press(t, payWithPurse)
				v.done(t, "holds", nil)
				require.Contains(t, v.readIn(t, "first", cancel, options{}).names(), cancel)
				v.press(t, cancel)
				v.requireNothing(t, v.read(t, "You cancelled."))
			}
			v.wallet(t)
			if tab == "second" {
				v.openIn(t, tab, "/v1/pay#usdc")
				v.weather(t, weather{Of: "payment", Does: "hold"})
				v.done(t, "press", options{"tab": tab, "name": payWithPurse})
				v.done(t, "held", nil)
				v.done(t, "answers", nil)
				require.Contains(t, v.read(t, "is under way in another tab").names(), again)
				v.done(t, "reload", options{"tab": tab})
			} else {
				v.press(t, payWithPurse)
			}
			v.readIn(t, tab, seen, options{"idle": true})
			if tab == "first" {
				v.done(t, "answers", nil)
			}
			require.Equal(t, []string{once}, v.read(t, seen).names())
			s.requirePaid(t, 1)
			did := v.did(t)
			for _, sent := range did.Sent {
				require.Equal(t, did.Sent[0], sent)
			}
			require.Len(t, did.Wallets[0].Signed, 2)
			require.Equal(t, tab == "first", did.Wallets[0].Signed[0] == did.Wallets[0].Signed[1], "of one tab the chain takes one")
		})
	}
}

// damaged is a browser that gives back something else than what was stored.
func damaged(t *testing.T, m *market) {
	v := m.plain.enter(t).visit(t)
	v.open(t)
	v.openIn(t, "second", "/v1/pay#usdc")
	whole := v.header(t)
	for name, kept := range map[string]string{
		"no base64":    "42 €",
		"half of it":   whole[:len(whole)/2],
		"no signature": base64.StdEncoding.EncodeToString([]byte(`{"payload":{"authorization":{"validBefore":"0"}}}`)),
		"no payment":   base64.StdEncoding.EncodeToString([]byte(`null`)),
		"no end":       `{"said":"","paid":42}`,
	} {
		t.Run(name, func(t *testing.T) {
			v.done(t, "keep", options{"key": v.place(), "value": kept})
			v.done(t, "reload", nil)
			page := v.read(t, "is damaged. You may have been charged.")
			require.Contains(t, page.Text, "Check your wallet’s history after that.")
			require.Contains(t, page.Text, "If 42 USDC left your wallet, write to the seller.")
			require.Equal(t, []string{forget, other}, page.names())
			require.Equal(t, []string{forget, other}, v.readIn(t, "second", "is damaged", options{"idle": true}).names())
			v.press(t, forget)
			require.Equal(t, []string{payWithPurse}, v.read(t, payWithPurse).names())
			v.readIn(t, "second", payWithPurse, options{"idle": true})
			require.Empty(t, v.stored(t))
			require.Empty(t, v.did(t).Sent)
		})
	}
	v.shop.requirePaid(t, 0)
}

// header is a payment of the person that was over an hour ago.
func (v *visitor) header(t *testing.T) string {
	t.Helper()
	a := chain.NewAuthorization(t, chain.Address(v.key), v.shop.payee, price)
	a.ValidAfter, a.ValidBefore = 0, time.Now().Add(-time.Hour).Unix()
	return chain.Payment(t, a.Payload(a.Sign(t, v.key))).Get("Payment-Signature")
}

func overRefused(t *testing.T, m *market) {
	s := m.plain.enter(t)
	v := s.visitAs(t, options{}, s.chain.NewBuyer(t)) // without an earlier payment, with which the server would answer
	v.open(t)
	v.comeBackLate(t)
	require.Equal(t, []string{payWithPurse}, v.read(t, "The payment was refused. You were not charged. The server says:").names())
	require.Empty(t, v.stored(t))
	v.shop.requirePaid(t, 0)
}

// Where the chain is not read the payer looks. The first payment is over. What is signed after it is not, in whatever tab the
// first was forgotten.
func forgotten(t *testing.T, m *market) {
	for name, tab := range map[string]string{"in this tab": "first", "in another tab": "second"} {
		t.Run(name, func(t *testing.T) {
			s := m.blind.enter(t)
			v := s.visitAs(t, options{}, s.chain.NewBuyer(t))
			v.open(t)
			v.comeBackLate(t)
			page := v.read(t, "This payment has expired and can no longer be charged.")
			require.Equal(t, []string{"Check again", forget}, page.names(), "nothing asks to pay another way while it is there")
			require.NotContains(t, page.Text, "Not confirmed yet.")
			require.Contains(t, page.Text, "If 42 USDC left your wallet, write to the seller.")
			require.Len(t, v.stored(t), 1)
			v.picture(t, "expired")
			v.openIn(t, "second", "/v1/pay#usdc")
			v.readIn(t, "second", forget, options{"idle": true})
			v.done(t, "press", options{"tab": tab, "name": forget})
			v.readIn(t, "second", payWithPurse, options{"idle": true})
			require.Equal(t, []string{payWithPurse}, v.read(t, payWithPurse).names())
			require.Empty(t, v.stored(t))
			s.requirePaid(t, 0)

			v.weather(t, weather{Of: "payment", Does: "lose"})
			v.press(t, payWithPurse)
			page = v.read(t, "No answer arrived.")
			require.Equal(t, []string{again, other}, page.names(), "it can still be charged")
			require.NotContains(t, page.Text, "has expired")
			require.Len(t, v.stored(t), 1)
			s.requirePaid(t, 1)
			require.Equal(t, []string{again, other}, v.readIn(t, "second", again, options{"idle": true}).names())
			v.press(t, again)
			require.Equal(t, "You paid $42 Your licence comes by e-mail. Payment accepted. Your receipt shows its status.", v.read(t, "You paid $42").Status)
			s.requirePaid(t, 1)
		})
	}
}

// comeBackLate loads the page an hour after a payment was signed.
func (v *visitor) comeBackLate(t *testing.T) {
	t.Helper()
	v.done(t, "keep", options{"key": v.place(), "value": v.header(t)})
	v.done(t, "reload", nil)
}
