package pay

import (
	"encoding/json"
	"net/http"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/browser"
)

// A person pays with a wallet in the browser.
func (s *shop) byWallet() {
	b, key := browser.Run(s, "caddy/e2e/wallet/wallet.mjs"), s.chain.NewBuyer(s)
	do := func(command string, arguments map[string]any) (shown struct {
		URL, Text string
		Links     []string
	}) {
		s.Helper()
		all := map[string]any{"who": "ada", "tab": "first"}
		for name, value := range arguments {
			all[name] = value
		}
		var result json.RawMessage
		b.Do(s, command, all, &result)
		if string(result) != "null" {
			require.NoError(s, json.Unmarshal(result, &shown))
		}
		return shown
	}
	purse := map[string]any{
		"name": "Purse", "key": hexutil.Encode(crypto.FromECDSA(key)), "rpc": s.chain.URL, "chain": "0x14a34", "known": []string{"0x14a34"},
	}
	do("meet", map[string]any{"wallets": []any{purse}})
	do("open", map[string]any{"url": s.site + wanted})
	require.Equal(s, s.pay+"/v1/pay", do("follow", map[string]any{"link": "main a.button"}).URL)
	do("unfold", map[string]any{"rail": "usdc"})
	do("press", map[string]any{"name": "Pay with Purse"})
	panel := do("read", map[string]any{"text": open, "idle": true})
	require.Len(s, panel.Links, 2, "in, and to the receipt: %s", panel.Text)
	inside := do("follow", map[string]any{"link": ".wallet a.button:not(.plain)"})
	require.Equal(s, s.site+wanted, inside.URL)
	require.Contains(s, inside.Text, said(http.MethodGet, wanted, "usdc"))

	s.restart()
	do("open", map[string]any{"url": s.site + wanted})
	require.Contains(s, do("text", nil).Text, said(http.MethodGet, wanted, "usdc"))
	require.Equal(s, 1, s.transfers(key))
}
