package evm

import (
	"bytes"
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

func TestAnEndpointIsComparedWithItsNetwork(t *testing.T) {
	network, err := offer.LookupNetwork("base-sepolia")
	require.NoError(t, err)
	word := func(n int) string { return fmt.Sprintf("%064x", n) }
	const chain, code, places = "eth_chainId", "eth_getCode", "313ce567"
	for what, c := range map[string]struct{ asked, answer, want string }{
		"the right one":  {"", "", ""},
		"another chain":  {chain, `"0x1"`, "the chain id is 1 and not 84532"},
		"no chain":       {chain, `null`, "bad_answer"},
		"no contract":    {code, `"0x"`, "the token is no contract and not " + common.HexToAddress(network.USDC).Hex()},
		"other decimals": {places, `"0x` + word(18) + `"`, "the token decimals is 18 and not 6"},
	} {
		t.Run(what, func(t *testing.T) {
			answers := map[string]string{
				chain: `"0x14a34"`, code: `"0x60"`, places: `"0x` + word(6) + `"`,
			}
			answers[c.asked] = c.answer
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				var call struct{ Method string }
				_ = json.Unmarshal(body, &call)
				for asked, answer := range answers {
					if asked != "" && bytes.Contains(body, []byte(asked)) {
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
