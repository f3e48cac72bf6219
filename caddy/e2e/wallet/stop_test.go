package wallet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
)

// mainnet is another network than that of the offer.
const mainnet = "0x1"

// stops are what a wallet or the server may say before there is a signature. Nothing is stored, sent or charged, and the
// payer may try again: all happens in one visit.
func stops(t *testing.T, m *market) {
	const (
		declines  = "You declined in your wallet."
		busy      = "Unlock your wallet or finish its open request."
		elsewhere = "Your wallet is not on Base Sepolia (test network)."
		differs   = "The price or address differs from this page."
	)
	v := m.plain.enter(t).timed(t)
	v.open(t)
	for name, c := range map[string]struct {
		change func(*purse)
		said   string
	}{
		"declined to connect":              {faulty("eth_requestAccounts", 4001), declines},
		"declined to sign":                 {faulty("eth_signTypedData_v4", 4001), declines},
		"declined to change":               {also(on(mainnet), faulty("wallet_switchEthereumChain", 4001)), declines},
		"declined to add":                  {also(on(mainnet), only(mainnet), faulty("wallet_addEthereumChain", 4001)), declines},
		"declined by WalletConnect":        {faulty("eth_requestAccounts", 5000), declines},
		"change declined by WalletConnect": {also(on(mainnet), faulty("wallet_switchEthereumChain", 5001)), declines},
		"locked, without an error":         {func(p *purse) { p.Locked = true }, busy},
		"busy when asked to change":        {also(on(mainnet), faulty("wallet_switchEthereumChain", -32002)), busy},
		"lost its connection":              {faulty("eth_signTypedData_v4", 4900), "Your wallet reported an error."},
		"cannot add":                       {also(on(mainnet), only(mainnet), faulty("wallet_addEthereumChain", -32602)), elsewhere},
		"cannot change":                    {also(on(mainnet), faulty("wallet_switchEthereumChain", 4200)), elsewhere},
		"stays on its network":             {also(on(mainnet), func(p *purse) { p.Stuck = true }), elsewhere},
		"busy or locked":                   {faulty("eth_requestAccounts", -32002), busy},
		"busy while it signs":              {faulty("eth_signTypedData_v4", -32002), busy},
		"not allowed":                      {faulty("eth_requestAccounts", 4100), busy},
		"a signature that is too long":     {func(p *purse) { p.Longer = 5000 }, "Your wallet does not work with this page."},
		"broken":                           {faulty("eth_signTypedData_v4", -32000), "Your wallet reported an error."},
	} {
		t.Run(name, func(t *testing.T) {
			v.wallet(t, c.change)
			v.press(t, payWithPurse)
			if c.said == elsewhere {
				v.readIn(t, "first", "Switch to Base Sepolia (test network) in your wallet.", options{})
				v.readPassing(t, c.said)
			}
			v.requireNothing(t, v.read(t, c.said))
			if name == "declined to sign" {
				v.picture(t, "declined")
			}
		})
	}
	v.wallet(t)
	asked := len(v.did(t).Wallets[0].Calls)
	for name, c := range map[string]struct {
		weather
		said string
	}{
		"the quote does not come": {weather{Does: "abort"}, "The price cannot be checked now."},
		"the server has a problem": {
			weather{Does: "answer", Status: 503, Body: `{"detail":"It starts."}`},
			"The price cannot be checked now. Try again in a minute. You were not charged. It starts.", // its quotation marks are the style's
		},
		"another payee":   {weather{Does: "divert", Body: `{"payTo":"0x00000000000000000000000000000000000A11ce"}`}, differs},
		"another asset":   {weather{Does: "divert", Body: `{"asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"}`}, differs},
		"another amount":  {weather{Does: "divert", Body: `{"amount":"420000000"}`}, differs},
		"another network": {weather{Does: "divert", Body: `{"network":"eip155:8453"}`}, differs},
		"another scheme":  {weather{Does: "divert", Body: `{"scheme":"upto"}`}, differs},
	} {
		t.Run(name, func(t *testing.T) {
			c.Of = "quote"
			v.weather(t, c.weather)
			v.press(t, payWithPurse)
			v.requireNothing(t, v.read(t, c.said))
			require.Len(t, v.did(t).Wallets[0].Calls, asked, "the wallet is not asked")
		})
	}
	t.Run("too little", func(t *testing.T) {
		buyer := v.shop.chain.NewBuyer(t)
		a := chain.NewAuthorization(t, chain.Address(buyer), chain.Wallet, 58_500_000)
		_, err := v.shop.chain.Send(v.shop.chain.USDC, a.Call(t, a.Sign(t, buyer)))
		require.NoError(t, err)
		v.shop.chain.Mine(t, 1)
		v.wallet(t, func(p *purse) { p.Key = privateKey(buyer) })
		v.press(t, payWithPurse)
		v.requireNothing(t, v.read(t, "has 41.50 of 42."))
	})
	t.Run("another account meanwhile", func(t *testing.T) {
		v.wallet(t, func(p *purse) { p.Account = chain.Wallet.Hex() })
		v.press(t, payWithPurse)
		v.requireNothing(t, v.read(t, "The account or network changed in your wallet."))
	})
	t.Run("a network changed while it was asked", func(t *testing.T) {
		v.wallet(t, holding("eth_accounts"))
		v.press(t, payWithPurse)
		v.done(t, "holds", nil)
		v.become(t, options{"chain": mainnet})
		v.done(t, "answers", nil)
		v.requireNothing(t, v.read(t, "changed in your wallet"))
	})
	t.Run("signed too late", func(t *testing.T) {
		v.wallet(t, holding("eth_signTypedData_v4"))
		v.press(t, payWithPurse)
		v.done(t, "holds", nil)
		v.done(t, "pass", options{"milliseconds": 300_000})
		v.done(t, "answers", nil)
		v.requireNothing(t, v.read(t, "You approved too late."))
	})
}

func holding(method string) func(*purse) { return func(p *purse) { p.Hold = method } }

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
