package wallet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
)

// appears is a wallet that comes to the page in one of the ways of wallets, and is asked to sign. One pays.
func appears(t *testing.T, m *market) {
	late := func(legacy string) func(*purse) { return func(p *purse) { p.Late, p.Legacy = true, legacy } }
	for name, c := range map[string]struct {
		change func(*purse)
		pay    string
	}{
		"announces itself late":       {late(""), payWithPurse},
		"is window.ethereum":          {func(p *purse) { p.Legacy = "silent" }, "Pay with your wallet"},
		"is window.ethereum later":    {late("silent"), "Pay with your wallet"},
		"says later that it is there": {late("initialized"), "Pay with your wallet"},
	} {
		t.Run(name, func(t *testing.T) {
			v := m.plain.enter(t).timed(t, c.change)
			v.open(t)
			if name != "is window.ethereum" {
				require.Empty(t, v.readIn(t, "first", "", options{}).Tabs)
				require.Contains(t, v.controls(t, "first"), "ethereum:", "it is paid by hand")
				v.done(t, "appear", nil)
			}
			require.Equal(t, []string{"In this browser", "Another wallet"}, v.readPassing(t, c.pay).Tabs)
			if name != "is window.ethereum" {
				v.wallet(t, faulty("eth_signTypedData_v4", 4001))
				v.press(t, c.pay)
				v.read(t, "You declined in your wallet.")
				return
			}
			v.press(t, c.pay)
			v.requirePaid(t, seen)
		})
	}
}

// habits are networks that the wallet is on or knows, and what real wallets do beside the standards. Each is asked to sign, and
// the last one pays.
func habits(t *testing.T, m *market) {
	v := m.plain.enter(t).timed(t)
	v.open(t)
	elsewhere, unknown := on(mainnet), also(on(mainnet), only(mainnet))
	for name, change := range map[string]func(*purse){
		"is on another network":         elsewhere,
		"does not know the network":     unknown,
		"an unknown network is -32603":  also(unknown, func(p *purse) { p.Unknown = -32603 }),
		"changes after it has answered": also(elsewhere, func(p *purse) { p.Slow = 4 }),
		"names no account after access": func(p *purse) { p.Forgetful = true },
	} {
		t.Run(name, func(t *testing.T) {
			before := len(v.did(t).Wallets[0].Calls)
			v.wallet(t, change, faulty("eth_signTypedData_v4", 4001))
			v.press(t, payWithPurse)
			if name == "changes after it has answered" {
				v.readIn(t, "first", "Switch to Base Sepolia (test network) in your wallet.", options{})
				v.readPassing(t, "You declined in your wallet.")
			}
			v.requireNothing(t, v.read(t, "You declined in your wallet."))
			calls := v.did(t).Wallets[0].Calls[before:]
			require.Equal(t, "eth_signTypedData_v4", calls[len(calls)-1])
			require.Equal(t, name != "names no account after access", slices.Contains(calls, "wallet_switchEthereumChain"))
		})
	}
	v.wallet(t, unknown)
	v.press(t, payWithPurse)
	v.requirePaid(t, seen)
	added := v.did(t).Wallets[0].Added
	require.Equal(t, map[string]any{
		"chainId": baseSepolia, "chainName": "Base Sepolia (test network)",
		"rpcUrls": []any{"https://sepolia.base.org"}, "blockExplorerUrls": []any{"https://sepolia.basescan.org"}, // never the operator's
		"nativeCurrency": map[string]any{"name": "ETH", "symbol": "ETH", "decimals": 18.0},
	}, added[len(added)-1])
}

// contract is a wallet that is a contract (EIP-1271).
func contract(t *testing.T, m *market) {
	v := m.plain.enter(t).visit(t, func(p *purse) { p.Contract, p.Longer = chain.Wallet.Hex(), 32 })
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
	buyer := m.buyer()
	var wallets []purse
	for _, icon := range []string{
		square("teal"), "https://evil.example/icon.png", "data:text/html,<script></script>", square("teal") + strings.Repeat(" ", 200_000),
	} {
		wallets = append(wallets, purse{Name: fmt.Sprint(len(wallets)), Icon: icon})
	}
	v := m.plain.enter(t).visitAs(t, options{"wallets": wallets}, buyer)
	v.open(t)
	page := v.read(t, "Pay with 0")
	require.Equal(t, []string{"Pay with 0", "Pay with 1", "Pay with 2", "Pay with 3"}, page.names())
	require.Equal(t, []int{5, 0, 0, 0}, page.Icons)
	var edges []int
	v.do(t, "edges", nil, &edges)
	require.Equal(t, []int{edges[0], edges[0], edges[0], edges[0]}, edges, "the names are below each other")
	require.Empty(t, v.did(t).Sent)
}

func tabKeys(t *testing.T, m *market) {
	v := m.plain.enter(t).visit(t)
	v.open(t)
	v.read(t, payWithPurse)
	key := func(key string) (focused string) {
		t.Helper()
		v.do(t, "key", options{"key": key}, &focused)
		return focused
	}
	v.done(t, "unfold", options{"rail": "card"})
	v.done(t, "unfold", options{"rail": "usdc"}) // its summary has the focus
	require.Equal(t, "In this browser", key("Tab"))
	require.Equal(t, "Another wallet", key("ArrowRight"))
	require.Empty(t, v.readIn(t, "first", "", options{}).names(), "the other panel is hidden")
	require.NotEqual(t, "In this browser", key("Tab"), "only the selected tab is in the order")
	require.Equal(t, "Another wallet", key("Shift+Tab"))
	require.Equal(t, "In this browser", key("ArrowLeft"))
	require.Equal(t, []string{payWithPurse}, v.readIn(t, "first", "", options{}).names())
}

// launches follows the link to a wallet that is not there.
func launches(t *testing.T, m *market) {
	s := m.plain.enter(t)
	for name, given := range map[string]options{
		"beside a wallet in the browser": {"phone": true, "clock": true},
		"without one":                    {"phone": true, "clock": true, "wallets": []purse{}},
	} {
		t.Run(name, func(t *testing.T) {
			v := s.visitAs(t, given, s.buyer())
			v.open(t)
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
