package wallet

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
)

// habits are what real wallets do beside the standards. All of them pay.
func habits(t *testing.T, m *market) {
	late := func(legacy string) func(*purse) { return func(p *purse) { p.Late, p.Legacy = true, legacy } }
	for name, c := range map[string]struct {
		change func(*purse)
		pay    string
	}{
		"announces itself late":         {late(""), payWithPurse},
		"is window.ethereum later":      {late("silent"), "Pay with your wallet"},
		"says later that it is there":   {late("initialized"), "Pay with your wallet"},
		"an unknown network is -32603":  {also(on("0x1"), only("0x1"), func(p *purse) { p.Unknown = -32603 }), payWithPurse},
		"changes after it has answered": {also(on("0x1"), func(p *purse) { p.Slow = 4 }), payWithPurse},
		"names no account after access": {func(p *purse) { p.Forgetful = true }, payWithPurse},
	} {
		t.Run(name, func(t *testing.T) {
			v := m.open(t).visit(t, c.change)
			v.open(t)
			if c.pay != payWithPurse || name == "announces itself late" {
				require.Empty(t, v.readIn(t, "first", "", options{}).Tabs)
				require.Contains(t, v.controls(t, "first"), "ethereum:", "it is paid by hand")
				v.done(t, "appear", nil)
				require.Equal(t, []string{"This browser", "Another wallet"}, v.read(t, c.pay).Tabs)
			}
			v.press(t, c.pay)
			v.requirePaid(t, seen)
		})
	}
}

// contract is a wallet that is a contract (EIP-1271).
func contract(t *testing.T, m *market) {
	v := m.open(t).visit(t, func(p *purse) { p.Contract, p.Longer = chain.Wallet.Hex(), 32 })
	v.open(t)
	v.press(t, payWithPurse)
	v.requirePaid(t, seen)
}

// square is an icon, 5 pixels wide.
func square(color string) string {
	return `data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg" width="5" height="5"><path d="M0 0h5v5H0z" fill="` + color + `"/></svg>`
}

// icons are shown if they are images in the announcement itself.
func icons(t *testing.T, m *market) {
	s := m.open(t)
	for name, c := range map[string]struct {
		icon   string
		widths []int
	}{
		"an image":           {square("teal"), []int{5}},
		"an address":         {"https://evil.example/icon.png", []int{}},
		"something else":     {"data:text/html,<script></script>", []int{}},
		"an image of 200 KB": {square("teal") + strings.Repeat(" ", 200_000), []int{}},
	} {
		t.Run(name, func(t *testing.T) {
			v := s.visit(t, func(p *purse) { p.Icon = c.icon })
			v.open(t)
			page := v.read(t, payWithPurse)
			require.Equal(t, []string{payWithPurse}, page.names())
			require.Equal(t, c.widths, page.Icons)
			require.Empty(t, v.did(t).Sent)
		})
	}
}

func tabKeys(t *testing.T, m *market) {
	v := m.open(t).visit(t)
	v.open(t)
	v.read(t, payWithPurse)
	key := func(key string) (focused string) {
		t.Helper()
		v.do(t, "key", options{"key": key}, &focused)
		return focused
	}
	v.done(t, "unfold", options{"rail": "card"})
	v.done(t, "unfold", options{"rail": "usdc"}) // its summary has the focus
	require.Equal(t, "This browser", key("Tab"))
	require.Equal(t, "Another wallet", key("ArrowRight"))
	require.Empty(t, v.readIn(t, "first", "", options{}).names(), "the other panel is hidden")
	require.NotEqual(t, "This browser", key("Tab"), "only the selected tab is in the order")
	require.Equal(t, "Another wallet", key("Shift+Tab"))
	require.Equal(t, "This browser", key("ArrowLeft"))
	require.Equal(t, []string{payWithPurse}, v.readIn(t, "first", "", options{}).names())
}

// launches follows the link to a wallet that is not there.
func launches(t *testing.T, m *market) {
	s := m.open(t)
	for name, given := range map[string]options{
		"beside a wallet in the browser": {"phone": true},
		"without one":                    {"phone": true, "wallets": []purse{}},
	} {
		t.Run(name, func(t *testing.T) {
			v := s.visitAs(t, given, s.buyer())
			v.openIn(t, "first", options{"clock": true})
			v.done(t, "launch", nil)
			var page struct{ Text string }
			v.do(t, "text", nil, &page)
			require.NotContains(t, page.Text, "No wallet opened.")
			v.done(t, "pass", options{"milliseconds": 2000})
			v.picture(t, "by hand "+name)
			v.do(t, "text", nil, &page)
			require.Contains(t, page.Text, "No wallet opened. Copy the address.")
		})
	}
}
