package wallet

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// place is where the browser keeps what it knows of a payment.
func (v *visitor) place() string {
	return "pay-offer " + strings.TrimPrefix(v.shop.url, "http://") + " eip155:84532"
}

// keptReceipt reloads the page after a payment, in the language that its address asks for.
func keptReceipt(t *testing.T, m *market) {
	s := m.open(t)
	v := s.visit(t)
	v.openIn(t, "first", options{"url": s.url + "/v1/pay?lang=de#usdc"})
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
	s := m.open(t)
	const end = `{"said":"claimed","paid":42,"receipt":""}`
	for name, wake := range map[string]func(v *visitor){
		"when it is shown":   func(v *visitor) { v.done(t, "thaw", nil) },
		"when one would pay": func(v *visitor) { v.press(t, payWithPurse) },
	} {
		t.Run(name, func(t *testing.T) {
			v := s.visit(t)
			v.open(t)
			v.read(t, payWithPurse)
			v.done(t, "keep", options{"key": v.place(), "value": end}) // no tab is told of its own
			wake(v)
			page := v.read(t, "You paid $42")
			require.Equal(t, []string{once}, page.names())
			require.Empty(t, page.Links)
			require.Empty(t, v.did(t).Wallets[0].Calls)
			require.Empty(t, v.did(t).Sent)
		})
	}
	s.requirePaid(t, 0)
}

// left is a wallet that does not answer and is left. What it answers too late is heard by nobody, and another tab
// can pay meanwhile.
func left(t *testing.T, m *market) {
	s, paid := m.open(t), int64(0)
	stopped := func(t *testing.T, v *visitor) {
		page := v.read(t, "You cancelled.")
		require.Contains(t, page.Status, nothing)
		require.Equal(t, []string{payWithPurse}, page.names())
		require.Equal(t, page.Buttons[0], page.Focus)
		require.Empty(t, v.stored(t))
		require.Empty(t, v.did(t).Sent)
		s.requirePaid(t, paid)
	}
	for method, chain := range map[string]string{
		"eth_requestAccounts": baseSepolia, "wallet_switchEthereumChain": "0x1", "eth_call": baseSepolia, "eth_signTypedData_v4": baseSepolia,
	} {
		for name, late := range map[string]string{"the answer comes while one pays": "second", "the answer comes last": "last"} {
			t.Run(method+"/"+name, func(t *testing.T) {
				v := s.visit(t, on(chain), func(p *purse) { p.Hold = method })
				v.open(t)
				v.press(t, payWithPurse)
				v.done(t, "holds", nil)
				require.Contains(t, v.readIn(t, "first", cancel, options{}).names(), cancel)
				v.press(t, cancel)
				stopped(t, v)
				v.become(t, options{"hold": ""})
				tab := "first"
				if late == "second" {
					tab = "second"
					v.openIn(t, tab, options{})
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
				if late == "last" {
					v.done(t, "answers", nil)
				}
				require.Equal(t, []string{once}, v.read(t, seen).names())
				paid++
				s.requirePaid(t, paid)
				did := v.did(t)
				for _, sent := range did.Sent {
					require.Equal(t, did.Sent[0], sent)
				}
				if tab == "first" {
					for _, nonce := range did.Wallets[0].Signed {
						require.Equal(t, did.Wallets[0].Signed[0], nonce, "the chain would take one of them")
					}
				}
			})
		}
	}
}

// damaged is a browser that gives back something else than what was stored.
func damaged(t *testing.T, m *market) {
	s := m.open(t)
	whole := s.visit(t).header(t)
	for name, kept := range map[string]string{
		"no base64":    "42 €",
		"half of it":   whole[:len(whole)/2],
		"no signature": base64.StdEncoding.EncodeToString([]byte(`{"payload":{"authorization":{"validBefore":"0"}}}`)),
		"no payment":   base64.StdEncoding.EncodeToString([]byte(`null`)),
		"no end":       `{"said":"","paid":42}`,
	} {
		t.Run(name, func(t *testing.T) {
			v := s.visit(t)
			v.open(t)
			v.done(t, "keep", options{"key": v.place(), "value": kept})
			v.done(t, "reload", nil)
			page := v.read(t, "is damaged. You may have been charged.")
			require.Contains(t, page.Text, "Check your wallet’s history after that.")
			require.Contains(t, page.Text, "If 42 USDC left your wallet, write to the seller.")
			require.Equal(t, []string{forget, other}, page.names())
			v.openIn(t, "second", options{})
			require.Equal(t, []string{forget, other}, v.readIn(t, "second", "is damaged", options{"idle": true}).names())
			v.press(t, forget)
			require.Equal(t, []string{payWithPurse}, v.read(t, payWithPurse).names())
			v.readIn(t, "second", payWithPurse, options{"idle": true})
			require.Empty(t, v.stored(t))
			require.Empty(t, v.did(t).Sent)
		})
	}
	s.requirePaid(t, 0)
}
