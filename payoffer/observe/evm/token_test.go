package evm

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestAnEndpointIsComparedWithWhatPayersSignFor(t *testing.T) {
	network, err := offer.LookupNetwork("base-sepolia")
	require.NoError(t, err)
	word := func(n int) string { return fmt.Sprintf("%064x", n) }
	text := func(s string) string {
		padded := make([]byte, (len(s)+31)/32*32)
		copy(padded, s)
		return `"0x` + word(32) + word(len(s)) + hex.EncodeToString(padded) + `"`
	}
	const chain, code, name, version, places = "eth_chainId", "eth_getCode", "06fdde03", "54fd4d50", "313ce567"
	for what, c := range map[string]struct{ asked, answer, want string }{
		"the right one":             {"", "", ""},
		"another chain":             {chain, `"0x1"`, "the chain id is 1 and not 84532"},
		"no chain":                  {chain, `null`, "bad_answer"},
		"no contract":               {code, `"0x"`, "the token is no contract and not " + common.HexToAddress(network.USDC).Hex()},
		"another name":              {name, text("USD Coin"), `the token name is "USD Coin" and not "USDC"`},
		"a name that is too long":   {name, `"0x` + word(32) + word(33) + word(0) + `"`, "bad_answer"},
		"a name that is a number":   {name, `"0x` + word(7) + `"`, "bad_answer"},
		"another version":           {version, text("1"), `the token version is "1" and not "2"`},
		"a version that is refused": {version, "", `the token version is refused by the contract and not "2"`},
		"other decimals":            {places, `"0x` + word(18) + `"`, "the token decimals is 18 and not 6"},
	} {
		t.Run(what, func(t *testing.T) {
			answers := map[string]string{
				chain: `"0x14a34"`, code: `"0x60"`, name: text("USDC"), version: text("2"), places: `"0x` + word(6) + `"`,
			}
			answers[c.asked] = c.answer
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				var call struct{ Method string }
				_ = json.Unmarshal(body, &call)
				for asked, answer := range answers {
					if asked != "" && bytes.Contains(body, []byte(asked)) {
						if answer == "" {
							fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":3,"message":"execution reverted"}}`)
							return
						}
						fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%s}`, answer)
						return
					}
				}
				t.Errorf("unexpected: %s", body)
			}))
			defer server.Close()
			err := CheckEndpoint(t.Context(), server.URL, server.Client().Transport, network)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
	down := httptest.NewServer(nil)
	down.Close()
	err = CheckEndpoint(t.Context(), down.URL+"/key", http.DefaultTransport, network)
	var failed *observe.Error
	require.ErrorAs(t, err, &failed)
	require.NotContains(t, err.Error(), "key")
}
