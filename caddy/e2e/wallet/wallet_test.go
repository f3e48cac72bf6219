// Package wallet pays on the page with a wallet in the browser: the real server, the official facilitator, a simulated
// chain, and Chromium with wallets that are scripted. Every sentence is held against the chain.
package wallet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

const (
	payWithPurse = "Pay with Purse"
	again        = "Send it again"
	forget       = "Remove this payment"
	once         = "Pay again"
	onceYes      = "Yes, pay again"
	other        = "Pay another way"
	otherYes     = "Yes, pay another way"
	cancel       = "Cancel"
	nothing      = "You were not charged."
	// seen is the result of a payment that the server read on the chain.
	seen = "You paid $42 Your licence comes by e-mail. We found your payment on the blockchain."
)

// scenarios are all that may happen to one who pays.
var scenarios = map[string]func(*testing.T, *market){
	"one signature pays":                               onePays,
	"a payment without an answer is sent again":        resent,
	"wallets announce themselves":                      announced,
	"a wallet is found when it appears":                appears,
	"a hostile name stays text":                        hostile,
	"what stops a payment charges nothing":             stops,
	"wallets have networks and habits":                 habits,
	"a browser that stores nothing signs nothing":      noStorage,
	"a reload before the signature leaves nothing":     reloadBefore,
	"a payment that cannot be taken now is sent again": unavailable,
	"an unknown outcome is asked for again":            unknown,
	"a server that is down charges nothing or once":    down,
	"two tabs sign once":                               tabs,
	"two tabs sign once without locks":                 tabsWithoutLocks,
	"an answer that says nothing decides nothing":      garbled,
	"a refusal is final":                               refused,
	"what is over is refused":                          overRefused,
	"what is over and undecided can be forgotten":      forgotten,
	"a receipt elsewhere is not linked":                foreignReceipt,
	"the receipt is linked until one pays once more":   keptReceipt,
	"a tab that slept learns that it was paid":         slept,
	"a wallet that never answers can be left":          left,
	"what was damaged can be forgotten":                damaged,
	"after a payment nothing pays without a question":  paidOnce,
	"an open payment is the only one":                  openOnce,
	"a contract pays":                                  contract,
	"a wallet has an icon":                             icons,
	"tabs are used with the keys":                      tabKeys,
	"a link that opens nothing says so":                launches,
	"USDC by hand is waited for":                       byHand,
	"a payment of a wallet here is not asked about":    notByHand,
}

func TestBrowserWalletPays(t *testing.T) {
	m := openMarket(t)
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) { scenario(t, m) })
	}
}

func onePays(t *testing.T, m *market) {
	v := m.plain.enter(t).visit(t)
	v.open(t)
	require.Equal(t, []string{payWithPurse}, v.read(t, "").names())
	require.Empty(t, v.did(t).Wallets[0].Calls, "no account is read before the click")
	v.picture(t, "one")
	v.press(t, payWithPurse)
	v.read(t, seen)
	v.picture(t, "paid")
	page := v.requirePaid(t, seen)
	var receipt struct{ URL, Text string }
	v.do(t, "follow", options{"link": ".wallet a"}, &receipt)
	require.Equal(t, page.Links[0], receipt.URL)
	require.Contains(t, receipt.Text, "42")
	v.done(t, "back", nil)
	v.read(t, seen)
	require.Equal(t, done, v.controls(t, "first"), "after the Back key")
}

// requireHeadings requires that no level is left out while a payment hides the other methods. After it the head of the method
// is hidden, too.
func (v *visitor) requireHeadings(t *testing.T) {
	t.Helper()
	var levels []string
	v.do(t, "headings", nil, &levels)
	require.Contains(t, [][]string{{"h1", "h2", "h3"}, {"h1", "h2"}}, levels)
}

// requirePaid requires that the page says so, and links the receipt, after one payment on the chain.
func (v *visitor) requirePaid(t *testing.T, said string) shown {
	t.Helper()
	page := v.read(t, said)
	require.Equal(t, said, page.Status)
	require.Equal(t, []string{once}, page.names(), "nothing pays before one says so")
	require.Len(t, page.Links, 1)
	require.Len(t, v.stored(t), 1)
	v.requireAsks(t, "first")
	for _, kept := range v.stored(t) {
		require.JSONEq(t, `{"said":"received","paid":42,"receipt":"`+page.Links[0]+`"}`, kept, "what was signed is kept no more")
	}
	v.shop.requirePaid(t, 1)
	require.Contains(t, server.Get(t, page.Links[0], "text/html"), "42")
	return page
}

func announced(t *testing.T, m *market) {
	s := m.plain.enter(t)
	buyer := s.buyer()
	p := purse{Key: privateKey(buyer), RPC: s.chain.URL, Chain: baseSepolia, Known: []string{baseSepolia}}
	first, second, old := p, p, p
	first.Name, second.Name, old.Name, old.Legacy = "Purse", "Pouch", "the old way", "silent"
	first.Icon, second.Icon = square("teal"), square("orange")
	v := s.visitAs(t, options{"wallets": []purse{first, second, old}}, buyer)
	v.open(t)
	require.Equal(t, []string{payWithPurse, "Pay with Pouch"}, v.read(t, "").names())
	v.requireAsks(t, "first")
	v.picture(t, "several")
	v.press(t, "Pay with Pouch")
	require.Equal(t, "View receipt", v.read(t, "You paid $42").Focus)
	did := v.did(t)
	require.Empty(t, did.Wallets[0].Calls)
	require.Len(t, did.Wallets[1].Signed, 1)
	require.Empty(t, did.Wallets[2].Calls)
	s.requirePaid(t, 1)
}

func hostile(t *testing.T, m *market) {
	s := m.plain.enter(t)
	const name = "<img src=x onerror=alert(1)>$&\u202egnorw\u2069"
	v := s.visit(t, func(p *purse) { p.Name = name })
	v.open(t)
	page := v.read(t, "")
	require.Equal(t, []string{"Pay with <img src=x onerror=alert(1)>$& gnorw"}, page.names())
	require.NotContains(t, page.HTML, "<img")
	v.become(t, options{"faults": map[string]fault{"eth_signTypedData_v4": {Code: -32603, Message: name}}})
	v.press(t, "Pay with")
	page = v.read(t, "Your wallet reported an error")
	require.Contains(t, page.Status, "<img src=x onerror=alert(1)>$& gnorw")
	require.NotContains(t, page.HTML, "<img")
	v.did(t)
	s.requirePaid(t, 0)
}

func noStorage(t *testing.T, m *market) {
	s := m.plain.enter(t)
	v := s.visitAs(t, options{"noStorage": true}, s.buyer())
	v.open(t)
	v.press(t, payWithPurse)
	v.requireNothing(t, v.read(t, "This browser blocks storage for this page"))
	require.Empty(t, v.did(t).Wallets[0].Calls)
}

func reloadBefore(t *testing.T, m *market) {
	s := m.plain.enter(t)
	v := s.visit(t, holding("eth_signTypedData_v4"))
	v.open(t)
	v.press(t, payWithPurse)
	v.done(t, "holds", nil)
	waiting := v.readIn(t, "first", "Approve the payment of 42 USDC", options{})
	require.Equal(t, []string{cancel}, waiting.names())
	require.Equal(t, "Approve", waiting.Step)
	v.requireHeadings(t)
	var spins []string
	v.do(t, "spins", nil, &spins)
	require.Equal(t, []string{"turn", "none"}, spins, "with motion, and with less of it")
	v.picture(t, "sign")
	v.requireAsks(t, "first")
	v.done(t, "reload", nil)
	v.done(t, "answers", nil) // nobody hears it
	require.Equal(t, []string{payWithPurse}, v.read(t, "").names())
	require.Empty(t, v.stored(t))
	require.Empty(t, v.did(t).Sent)
	s.requirePaid(t, 0)

	v.press(t, payWithPurse)
	v.requirePaid(t, seen)
}
