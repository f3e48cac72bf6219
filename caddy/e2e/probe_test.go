package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// The server finds out how a facilitator is by a payment of nobody. The official one has to read the chain for it and
// refuses it for want of money alone: everything else about it is right.
func TestTheOfficialFacilitatorRefusesAProbeForWantOfMoney(t *testing.T) {
	lab.RequireNode(t)
	c := chain.Start(t)
	official, err := url.Parse(node.StartFacilitator(t, c.URL, c.Facilitator))
	require.NoError(t, err)
	verdicts := make(chan string, 10)
	proxy := httputil.NewSingleHostReverseProxy(official)
	proxy.ModifyResponse = func(r *http.Response) error {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Request.URL.Path == "/verify" {
			verdicts <- string(body)
		}
		return err
	}
	between := httptest.NewServer(proxy)
	t.Cleanup(between.Close)
	base, _ := server.StartPayable(t, chain.NewAddress(t).Hex(), between.URL, c.URL)

	select {
	case verdict := <-verdicts:
		require.Contains(t, verdict, `"isValid":false`)
		require.Contains(t, verdict, `"invalidReason":"invalid_exact_evm_insufficient_balance"`)
	case <-time.After(30 * time.Second):
		require.Fail(t, "no probe")
	}
	answer := node.Pay(t, node.BuyerV2, base+"/v1/sponsor", c.Buyers[0])
	require.Equal(t, http.StatusOK, answer.Status, answer.Body)
}
