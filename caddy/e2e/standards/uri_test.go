package standards

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/showcase"
)

func TestAWalletsParserReadsTheTransfers(t *testing.T) {
	s := openShop(t, moreRails)
	for rail, chain := range map[string]string{"usdc": "84532", "usdc-421614": "421614"} {
		var parsed map[string]any
		require.NoError(t, validate(t, &parsed, nil, "validate-uris.mjs", strings.TrimSpace(s.get(t, "/v1/pay/"+rail+".uri"))))
		require.Equal(t, map[string]any{
			"scheme": "ethereum", "target_address": tokens["eip155:"+chain], "chain_id": chain, "function_name": "transfer",
			"parameters": map[string]any{"address": payTo, "uint256": "42000000"},
		}, parsed)
	}
}

// TestAWalletsParserReadsTheBitcoinPayment asks a server in process, for without a network the built one has no rate.
func TestAWalletsParserReadsTheBitcoinPayment(t *testing.T) {
	recorder := httptest.NewRecorder()
	require.True(t, showcase.New(t, showcase.Offer(t, "https://pay.example.org")).
		Serve(recorder, httptest.NewRequest(http.MethodGet, "/v1/invoice", nil)))
	var invoice struct {
		Methods []struct{ Rail, URI, AmountAtomic string }
	}
	require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &invoice))
	for _, m := range invoice.Methods {
		if m.Rail != "btc" {
			continue
		}
		var parsed map[string]any
		require.NoError(t, validate(t, &parsed, nil, "validate-uris.mjs", m.URI))
		require.Equal(t, "45678", m.AmountAtomic)
		require.Equal(t, map[string]any{
			"address": "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
			"options": map[string]any{"amount": 0.00045678, "label": "Example & Söhne"},
		}, parsed)
		return
	}
	t.Fatal("the invoice has no bitcoin")
}
