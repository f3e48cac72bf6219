// Package wallet pays on the page with a wallet in the browser: the real server, the official facilitator, a simulated
// chain, and Chromium with wallets that are scripted. Every sentence is held against the chain.
package wallet

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
)

const (
	payWithPurse = "Pay with Purse"
	again        = "Send it again"
	forget       = "Forget this payment"
	once         = "Pay again"
	onceYes      = "Yes, pay again"
	other        = "Pay another way"
	otherYes     = "Yes, pay another way"
	cancel       = "Cancel"
	nothing      = "You were not charged."
	// seen is the result of a payment that the server read on the chain.
	seen = "You paid $42 The payment was seen on the blockchain."
)

// scenarios are all that may happen to one who pays.
var scenarios = map[string]func(*testing.T, *market){
	"one signature pays":                               onePays,
	"a payment without an answer is sent again":        resent,
	"wallets announce themselves":                      announced,
	"a wallet that announces nothing is found":         legacy,
	"a hostile name stays text":                        hostile,
	"what stops a payment charges nothing":             stops,
	"a network is changed":                             changed,
	"a network that is not known is added":             added,
	"terms that changed are not signed":                diverted,
	"a browser that stores nothing signs nothing":      noStorage,
	"a reload before the signature leaves nothing":     reloadBefore,
	"a payment that cannot be taken now is sent again": unavailable,
	"an unknown outcome is asked for again":            unknown,
	"a signature that is too long is not sent":         long,
	"a server that is down charges nothing or once":    down,
	"two tabs sign once":                               tabs,
	"two tabs sign once without locks":                 tabsWithoutLocks,
	"an answer that says nothing decides nothing":      garbled,
	"a refusal is final":                               refused,
	"what is over and undecided can be forgotten":      forgotten,
	"what is over says nothing of the next payment":    forgottenAlone,
	"another payment in the way is said":               conflict,
	"a receipt elsewhere is not linked":                foreignReceipt,
	"the receipt is linked until one pays once more":   keptReceipt,
	"a tab that slept learns that it was paid":         slept,
	"a wallet that never answers can be left":          left,
	"what was damaged can be forgotten":                damaged,
	"after a payment nothing pays without a question":  paidOnce,
	"an open payment is the only one":                  openOnce,
	"wallets have habits":                              habits,
	"a contract pays":                                  contract,
	"a wallet has an icon":                             icons,
	"tabs are used with the keys":                      tabKeys,
	"a link that opens nothing says so":                launches,
}

func TestPayingWithAWalletInTheBrowser(t *testing.T) {
	m := openMarket(t)
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) { scenario(t, m) })
	}
}

func onePays(t *testing.T, m *market) {
	s := m.open(t)
	v := s.visit(t)
	v.open(t)
	require.Equal(t, []string{payWithPurse}, v.read(t, "").names())
	require.Empty(t, v.did(t).Wallets[0].Calls, "no account is read before the click")
	v.picture(t, "one")
	v.press(t, payWithPurse)
	v.read(t, seen)
	v.picture(t, "paid")
	v.requirePaid(t, seen)
}

// resent requires that a payment without an answer is sent again, byte by byte, when the payer asks for it, and when the page
// is loaded or opened.
func resent(t *testing.T, m *market) {
	const open = "No answer arrived."
	press := func(v *visitor) { v.press(t, again) }
	reload := func(v *visitor) { v.done(t, "reload", nil) }
	reopen := func(v *visitor) { v.done(t, "close", nil); v.open(t) }
	for name, c := range map[string]struct {
		does []weather // of each request but the last
		send []func(*visitor)
	}{
		"the answer got lost":       {[]weather{{Does: "lose"}}, []func(*visitor){press}},
		"the answer never comes":    {[]weather{{Does: "hold"}}, []func(*visitor){press}},
		"the page is reloaded":      {[]weather{{Does: "hold"}}, []func(*visitor){reload}},
		"the page is opened again":  {[]weather{{Does: "lose"}, {Does: "abort"}}, []func(*visitor){reopen, reopen}},
		"a proxy drops the payment": {[]weather{{Does: "lose"}, {Does: "answer", Status: 402, Body: `{"x402Version":1,"error":"payment required","accepts":[]}`}}, []func(*visitor){press, press}},
	} {
		t.Run(name, func(t *testing.T) {
			v := m.open(t).visit(t)
			v.openIn(t, "first", options{"clock": c.does[0].Does == "hold" && name != "the page is reloaded"})
			for i := range c.does {
				c.does[i].Of = "payment"
			}
			v.weather(t, c.does...)
			v.press(t, payWithPurse)
			if c.does[0].Does == "hold" {
				v.done(t, "held", nil)
			}
			if name == "the answer never comes" {
				v.done(t, "pass", options{"milliseconds": 120_000})
			}
			for _, send := range c.send {
				if name != "the page is reloaded" {
					require.Equal(t, []string{again, other}, v.read(t, open).names())
				}
				require.Len(t, v.stored(t), 1)
				send(v)
			}
			v.requirePaid(t, seen)
			v.same(t, 1+len(c.does))
		})
	}
}

// requirePaid requires that the page says so, and links the receipt, after one payment on the chain.
func (v *visitor) requirePaid(t *testing.T, said string) {
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
	var receipt struct{ URL, Text string }
	v.do(t, "follow", nil, &receipt)
	require.Equal(t, page.Links[0], receipt.URL)
	require.Contains(t, receipt.Text, "42")
}

func announced(t *testing.T, m *market) {
	s := m.open(t)
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

func legacy(t *testing.T, m *market) {
	s := m.open(t)
	v := s.visit(t, func(p *purse) { p.Legacy = "silent" })
	v.open(t)
	v.press(t, "Pay with your wallet")
	v.requirePaid(t, seen)
}

func hostile(t *testing.T, m *market) {
	s := m.open(t)
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

// stops are what a wallet or the server may say before there is a signature. Nothing is stored, sent or charged, and the
// payer may try again.
func stops(t *testing.T, m *market) {
	const wrong = "0x1"
	s := m.open(t)
	for name, c := range map[string]struct {
		change  func(*purse)
		weather weather
		said    string
	}{
		"declined to connect":              {change: faulty("eth_requestAccounts", 4001), said: "You declined in your wallet."},
		"declined to sign":                 {change: faulty("eth_signTypedData_v4", 4001), said: "You declined in your wallet."},
		"declined to change":               {change: also(on(wrong), faulty("wallet_switchEthereumChain", 4001)), said: "You declined in your wallet."},
		"declined to add":                  {change: also(on(wrong), only(wrong), faulty("wallet_addEthereumChain", 4001)), said: "You declined in your wallet."},
		"declined by WalletConnect":        {change: faulty("eth_requestAccounts", 5000), said: "You declined in your wallet."},
		"change declined by WalletConnect": {change: also(on(wrong), faulty("wallet_switchEthereumChain", 5001)), said: "You declined in your wallet."},
		"locked, without an error":         {change: func(p *purse) { p.Locked = true }, said: "Your wallet is locked or waits for an answer."},
		"busy when asked to change":        {change: also(on(wrong), faulty("wallet_switchEthereumChain", -32002)), said: "Your wallet is locked or waits for an answer."},
		"lost its connection":              {change: faulty("eth_signTypedData_v4", 4900), said: "Your wallet reported an error."},
		"cannot add":                       {change: also(on(wrong), only(wrong), faulty("wallet_addEthereumChain", -32602)), said: "Your wallet is not on Base Sepolia (test network)."},
		"cannot change":                    {change: also(on(wrong), faulty("wallet_switchEthereumChain", 4200)), said: "Your wallet is not on Base Sepolia (test network)."},
		"stays on its network":             {change: also(on(wrong), func(p *purse) { p.Stuck = true }), said: "Your wallet is not on Base Sepolia (test network)."},
		"busy or locked":                   {change: faulty("eth_requestAccounts", -32002), said: "Your wallet is locked or waits for an answer."},
		"busy while it signs":              {change: faulty("eth_signTypedData_v4", -32002), said: "Your wallet is locked or waits for an answer."},
		"not allowed":                      {change: faulty("eth_requestAccounts", 4100), said: "Your wallet is locked or waits for an answer."},
		"broken":                           {change: faulty("eth_signTypedData_v4", -32000), said: "Your wallet reported an error."},
		"the quote does not come":          {weather: weather{Of: "quote", Does: "abort"}, said: "The price cannot be checked now."},
		"the server has a problem": {
			weather: weather{Of: "quote", Does: "answer", Status: 503, Body: `{"detail":"It starts."}`},
			said:    "The price cannot be checked now. Try again in a minute. You were not charged. It starts.", // its quotation marks are the style's
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := s.visit(t, func(p *purse) {
				if c.change != nil {
					c.change(p)
				}
			})
			if c.weather.Of != "" {
				v.weather(t, c.weather)
			}
			v.requireStopped(t, c.said)
			if name == "declined to sign" {
				v.picture(t, "declined")
			}
		})
	}

	t.Run("too little", func(t *testing.T) {
		buyer := s.chain.NewBuyer(t)
		a := chain.NewAuthorization(t, chain.Address(buyer), chain.Wallet, 58_500_000)
		_, err := s.chain.Send(s.chain.USDC, a.Call(t, a.Sign(t, buyer)))
		require.NoError(t, err)
		s.chain.Mine(t, 1)
		s.visitAs(t, options{}, buyer).requireStopped(t, "has 41.50 of 42.")
	})
	t.Run("another account meanwhile", func(t *testing.T) {
		v := s.visit(t)
		v.become(t, options{"account": chain.Wallet.Hex()})
		v.requireStopped(t, "The account or network changed in your wallet.")
	})
	t.Run("a network changed while it was asked", func(t *testing.T) {
		v := s.visit(t, func(p *purse) { p.Hold = "eth_accounts" })
		v.open(t)
		v.press(t, payWithPurse)
		v.done(t, "holds", nil)
		v.become(t, options{"chain": wrong})
		v.done(t, "answers", nil)
		v.requireNothing(t, v.read(t, "changed in your wallet"))
	})
	t.Run("signed too late", func(t *testing.T) {
		v := s.visit(t, func(p *purse) { p.Hold = "eth_signTypedData_v4" })
		v.openIn(t, "first", options{"clock": true})
		v.press(t, payWithPurse)
		v.done(t, "holds", nil)
		v.done(t, "pass", options{"milliseconds": 300_000})
		v.done(t, "answers", nil)
		v.requireNothing(t, v.read(t, "You signed too late."))
	})
}

func faulty(method string, code int) func(*purse) {
	return func(p *purse) { p.Faults = map[string]fault{method: {Code: code}} }
}

func on(network string) func(*purse) { return func(p *purse) { p.Chain = network } }

func only(network string) func(*purse) { return func(p *purse) { p.Known = []string{network} } }

func also(changes ...func(*purse)) func(*purse) {
	return func(p *purse) {
		for _, change := range changes {
			change(p)
		}
	}
}

// requireStopped requires that a click leads to a sentence and to no payment.
func (v *visitor) requireStopped(t *testing.T, said string) {
	t.Helper()
	v.open(t)
	v.press(t, payWithPurse)
	v.requireNothing(t, v.read(t, said))
}

func (v *visitor) requireNothing(t *testing.T, page shown) {
	t.Helper()
	require.Contains(t, page.Status, nothing)
	require.Equal(t, []string{payWithPurse}, page.names(), "one may try again")
	require.Equal(t, page.Buttons[0], page.Focus)
	require.Empty(t, page.Step)
	require.Empty(t, v.stored(t))
	require.Empty(t, v.did(t).Sent)
	v.requireAsks(t, "first")
	v.shop.requirePaid(t, 0)
}

func changed(t *testing.T, m *market) {
	s := m.open(t)
	v := s.visit(t, on("0x1"))
	v.open(t)
	v.press(t, payWithPurse)
	v.requirePaid(t, seen)
	require.Contains(t, v.did(t).Wallets[0].Calls, "wallet_switchEthereumChain")
}

func added(t *testing.T, m *market) {
	s := m.open(t)
	v := s.visit(t, on("0x1"), only("0x1"))
	v.open(t)
	v.press(t, payWithPurse)
	v.requirePaid(t, seen)
	require.Equal(t, []map[string]any{{
		"chainId": baseSepolia, "chainName": "Base Sepolia (test network)",
		"rpcUrls": []any{"https://sepolia.base.org"}, "blockExplorerUrls": []any{"https://sepolia.basescan.org"}, // never the operator's
		"nativeCurrency": map[string]any{"name": "ETH", "symbol": "ETH", "decimals": 18.0},
	}}, v.did(t).Wallets[0].Added)
}

func diverted(t *testing.T, m *market) {
	s := m.open(t)
	for name, change := range map[string]string{
		"payee":   `{"payTo":"0x00000000000000000000000000000000000A11ce"}`,
		"asset":   `{"asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"}`,
		"amount":  `{"amount":"420000000"}`,
		"network": `{"network":"eip155:8453"}`,
		"scheme":  `{"scheme":"upto"}`,
	} {
		t.Run(name, func(t *testing.T) {
			v := s.visit(t)
			v.weather(t, weather{Of: "quote", Does: "divert", Body: change})
			v.requireStopped(t, "The price or address differs from this page.")
			require.Empty(t, v.did(t).Wallets[0].Calls)
		})
	}
}

func noStorage(t *testing.T, m *market) {
	s := m.open(t)
	v := s.visitAs(t, options{"noStorage": true}, s.buyer())
	v.requireStopped(t, "This browser blocks storage for this page")
	require.Empty(t, v.did(t).Wallets[0].Calls)
}

func reloadBefore(t *testing.T, m *market) {
	s := m.open(t)
	v := s.visit(t, func(p *purse) { p.Hold = "eth_signTypedData_v4" })
	v.open(t)
	v.press(t, payWithPurse)
	v.done(t, "holds", nil)
	waiting := v.readIn(t, "first", "Sign 42 USDC on", options{})
	require.Equal(t, []string{cancel}, waiting.names())
	require.Equal(t, "Sign", waiting.Step)
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
	s := m.open(t)
	v := s.visit(t)
	v.openIn(t, "first", options{"clock": true})
	m.line.Store(isDown)
	v.press(t, payWithPurse)
	page := v.readIn(t, "first", "The same payment is sent again in", options{})
	require.Contains(t, page.Status, "Your payment is not complete yet.")
	require.Contains(t, page.Status, "Sending it again cannot charge you twice.")
	require.NotContains(t, page.Status, "The server says", "its words are for software")
	require.NotContains(t, page.Text, "Retry-After")
	require.Equal(t, []string{other}, page.names())
	require.Equal(t, "Payment arrives", page.Step)
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
	s := m.open(t)
	v := s.visit(t)
	v.openIn(t, "first", options{"clock": true})
	m.line.Store(losesPaid)
	v.press(t, payWithPurse)
	// The server may read the chain before it answers.
	for !strings.Contains(v.readIn(t, "first", "You paid|sent again in", options{}).Text, "You paid $42") {
		v.done(t, "pass", options{"milliseconds": 12_000})
	}
	v.requirePaid(t, seen)
	did := v.did(t)
	v.same(t, len(did.Sent))
}

// A server takes no headers of any length, and says so before it reads a payment.
func long(t *testing.T, m *market) {
	s := m.open(t)
	s.visit(t, func(p *purse) { p.Longer = 5000 }).requireStopped(t, "Your wallet’s signature is too long for this page.")
}

func down(t *testing.T, m *market) {
	s := m.open(t)
	v := s.visit(t, func(p *purse) { p.Hold = "eth_signTypedData_v4" })
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
	v.same(t, 3)
}

func tabs(t *testing.T, m *market) {
	s := m.open(t)
	v := s.visit(t, func(p *purse) { p.Hold = "eth_signTypedData_v4" })
	v.open(t)
	v.openIn(t, "second", options{})
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
	s := m.open(t)
	v := s.visitAs(t, options{"noLocks": true}, s.buyer(), func(p *purse) { p.Hold = "eth_signTypedData_v4" })
	v.open(t)
	v.press(t, payWithPurse)
	v.done(t, "holds", nil)
	v.become(t, options{"hold": ""})
	v.openIn(t, "second", options{})
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

func garbled(t *testing.T, m *market) {
	s := m.open(t)
	for name, w := range map[string]weather{
		"a page of a proxy":    {Status: 200, Body: "<html>welcome"},
		"a 200 that says no":   {Status: 200, Body: `{"success":false}`},
		"half an answer":       {Status: 200, Body: `{"success":tr`},
		"null":                 {Status: 200, Body: `null`},
		"a 402 without words":  {Status: 402, Body: `[]`},
		"a bad gateway":        {Status: 502, Body: "<html>bad gateway"},
		"a redirect":           {Status: 302, Headers: map[string]string{"Location": "/v1/pay"}},
		"a 503 without a time": {Status: 503, Body: "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			v := s.visit(t)
			v.open(t)
			w.Of, w.Does = "payment", "answer"
			v.weather(t, w)
			v.press(t, payWithPurse)
			require.Equal(t, []string{again, other}, v.read(t, "No answer arrived.").names())
			require.Len(t, v.stored(t), 1)
			v.same(t, 1)
		})
	}
	s.requirePaid(t, 0)
}

func refused(t *testing.T, m *market) {
	s := m.open(t)
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
	page := v.read(t, "The payment was refused. The server says:")
	require.Equal(t, []string{payWithPurse}, page.names())
	require.NotContains(t, page.Status, "invalid_exact", "no code of the protocol")
	require.Empty(t, v.stored(t))
	s.requirePaid(t, 0)
}

// header is a payment of the person that was over an hour ago.
func (v *visitor) header(t *testing.T) string {
	t.Helper()
	a := chain.NewAuthorization(t, chain.Address(v.key), v.shop.payee, price)
	a.ValidAfter, a.ValidBefore = 0, time.Now().Add(-time.Hour).Unix()
	return chain.Payment(t, a.Payload(a.Sign(t, v.key))).Get("Payment-Signature")
}

func forgotten(t *testing.T, m *market) {
	t.Run("where the chain is read it is refused", func(t *testing.T) {
		v := m.open(t).visit(t)
		v.comeBackLate(t)
		require.Equal(t, []string{payWithPurse}, v.read(t, "The payment was refused. The server says:").names())
		require.Empty(t, v.stored(t))
		v.shop.requirePaid(t, 0)
	})
	t.Run("where it is not the payer looks", func(t *testing.T) {
		s := m.open(t, "rpc {RPC}", "rpc off", "\t\t\tconfirm latest\n", "")
		v := s.visit(t)
		v.comeBackLate(t)
		page := v.read(t, "Your payment is not complete yet.")
		require.Equal(t, []string{again, forget, other}, page.names())
		v.picture(t, "expired")
		require.Contains(t, page.Text, "If 42 USDC left your wallet, write to the seller.")
		require.Len(t, v.stored(t), 1)
		v.press(t, forget)
		require.Equal(t, []string{payWithPurse}, v.read(t, payWithPurse).names())
		require.Empty(t, v.stored(t))
		s.requirePaid(t, 0)
		v.press(t, payWithPurse)
		require.Equal(t, "You paid $42 Reported by the payment service, not checked on the blockchain.", v.read(t, "You paid").Status)
		s.requirePaid(t, 1)
	})
}

// The first payment is over. What is signed after it is not, in whatever tab the first was forgotten.
func forgottenAlone(t *testing.T, m *market) {
	for name, tab := range map[string]string{"in this tab": "first", "in another tab": "second"} {
		t.Run(name, func(t *testing.T) {
			s := m.open(t, "rpc {RPC}", "rpc off", "\t\t\tconfirm latest\n", "")
			v := s.visit(t)
			v.comeBackLate(t)
			require.Equal(t, []string{again, forget, other}, v.read(t, "Your payment is not complete yet.").names())
			if tab != "first" {
				v.openIn(t, tab, options{})
				v.readIn(t, tab, forget, options{"idle": true})
			}
			v.done(t, "press", options{"tab": tab, "name": forget})
			v.readIn(t, tab, payWithPurse, options{"idle": true})
			v.read(t, payWithPurse)

			v.weather(t, weather{Of: "payment", Does: "lose"})
			v.press(t, payWithPurse)
			page := v.read(t, "No answer arrived.")
			require.Equal(t, []string{again, other}, page.names(), "it can still be charged")
			require.NotContains(t, page.Text, "has expired")
			require.Len(t, v.stored(t), 1)
			s.requirePaid(t, 1)
			if tab != "first" {
				require.Equal(t, []string{again, other}, v.readIn(t, tab, again, options{"idle": true}).names())
			}
			v.press(t, again)
			v.read(t, "You paid $42")
			s.requirePaid(t, 1)
		})
	}
}

// comeBackLate opens the page an hour after a payment was signed.
func (v *visitor) comeBackLate(t *testing.T) {
	t.Helper()
	v.open(t)
	v.done(t, "keep", options{"key": v.place(), "value": v.header(t)})
	v.done(t, "reload", nil)
}

func conflict(t *testing.T, m *market) {
	s := m.open(t)
	v := s.visit(t)
	v.open(t)
	const detail = "Another payment of this payer is not decided yet; this one was not sent."
	v.weather(t, weather{Of: "payment", Does: "answer", Status: 409, Body: `{"detail":"` + detail + `"}`})
	v.press(t, payWithPurse)
	page := v.read(t, detail)
	require.Contains(t, page.Status, "Your payment is not complete yet.")
	require.Equal(t, []string{again, other}, page.names())
	require.Len(t, v.stored(t), 1)
	s.requirePaid(t, 0)
	v.press(t, again)
	v.requirePaid(t, seen)
	v.same(t, 2)
}

func foreignReceipt(t *testing.T, m *market) {
	s := m.open(t)
	for name, url := range map[string]string{"a script": "javascript:alert(1)", "another host": "https://evil.example/v1/receipt/x", "a longer name": s.url + ".evil.example/"} {
		t.Run(name, func(t *testing.T) {
			v := s.visit(t)
			v.open(t)
			body, err := json.Marshal(map[string]any{"success": true, "status": "claimed", "amountUsd": 42, "receiptUrl": url})
			require.NoError(t, err)
			v.weather(t, weather{Of: "payment", Does: "answer", Status: 200, Body: string(body)})
			v.press(t, payWithPurse)
			page := v.read(t, "You paid $42 That was an earlier payment of yours.")
			require.Empty(t, page.Links)
			require.Equal(t, []string{once}, page.names())
			v.done(t, "reload", nil)
			page = v.read(t, "You paid $42 That was an earlier payment of yours.")
			require.Empty(t, page.Links)
		})
	}
}
