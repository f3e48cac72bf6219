package pay

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/browser"
)

// A person pays with a wallet in the browser.
func TestAPersonWhoPaidByWalletIsBack(t *testing.T) {
	s := openShop(t)
	b, key := browser.Run(t, "caddy/e2e/wallet/wallet.mjs"), s.chain.Buyers[0]
	do := func(command string, arguments map[string]any) (shown struct {
		URL, Text string
		Links     []string
	}) {
		t.Helper()
		all := map[string]any{"who": "ada", "tab": "first"}
		for name, value := range arguments {
			all[name] = value
		}
		var result json.RawMessage
		b.Do(t, command, all, &result)
		if string(result) != "null" {
			require.NoError(t, json.Unmarshal(result, &shown))
		}
		return shown
	}
	purse := map[string]any{
		"name": "Purse", "key": hexutil.Encode(crypto.FromECDSA(key)), "rpc": s.chain.URL, "chain": "0x14a34", "known": []string{"0x14a34"},
	}
	do("meet", map[string]any{"wallets": []any{purse}})
	do("open", map[string]any{"url": s.site + wanted})
	require.Equal(t, s.pay+"/v1/pay", do("follow", map[string]any{"link": "main a.button"}).URL)
	do("unfold", map[string]any{"rail": "usdc"})
	do("press", map[string]any{"name": "Pay with Purse"})
	panel := do("read", map[string]any{"text": open, "idle": true, "screenshot": browser.Screenshot("gate-wallet")})
	require.Len(t, panel.Links, 2, "in, and to the receipt: %s", panel.Text)
	inside := do("follow", map[string]any{"link": `.wallet a:text-is("` + open + `")`})
	require.Equal(t, s.site+wanted, inside.URL)
	require.Contains(t, inside.Text, said(http.MethodGet, wanted, "usdc"))

	s.restart()
	do("open", map[string]any{"url": s.site + wanted})
	require.Contains(t, do("text", nil).Text, said(http.MethodGet, wanted, "usdc"))
	require.Equal(t, 1, s.transfers(key))
}
