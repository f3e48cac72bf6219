package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// largest is how many bytes the header block of a 402 may have: what a proxy takes.
const largest = 3900

// eachChains runs a test with an offer on one chain and with one on two.
func eachChains(t *testing.T, test func(t *testing.T, chains int)) {
	for _, chains := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d chains", chains), func(t *testing.T) {
			lab.RequireNginx(t)
			test(t, chains)
		})
	}
}

func TestOfficialClientsPayThroughAProxyWithDefaults(t *testing.T) {
	eachChains(t, func(t *testing.T, chains int) {
		lab.RequireNode(t)
		c := chain.Start(t)
		s := openShop(t, chains, node.StartFacilitator(t, c.URL, c.Facilitator), c.URL)
		for _, path := range []string{"/v1/quote", "/v1/offer", "/v1/sponsor"} {
			_, size := s.requireProxied(http.StatusPaymentRequired, http.MethodPost, path)
			t.Logf("%4d bytes: POST %s", size, path)
			require.LessOrEqual(t, size, largest)
			if path != "/v1/sponsor" {
				s.requireProxied(http.StatusPaymentRequired, http.MethodGet, path)
			}
		}
		for i, buyer := range []node.Buyer{node.BuyerV2, node.BuyerV1} {
			answer := node.Pay(t, buyer, s.base+"/v1/sponsor", c.Buyers[i])
			require.Equal(t, http.StatusOK, answer.Status, "%s: %s", buyer, answer.Body)
			require.NotNil(t, answer.Payment)
			require.Len(t, c.TransfersTo(t, s.payee), i+1)
		}
	})
}

func TestRefusalsPassThroughAProxyWithDefaults(t *testing.T) {
	eachChains(t, func(t *testing.T, chains int) {
		facilitator := payoffertest.NewFacilitator(t)
		s := openShop(t, chains, facilitator.URL(), "off")
		longest := strings.Repeat("r", 100)
		refused := func(what, path, response string, payment header) {
			t.Helper()
			answer, size := s.requireProxied(http.StatusPaymentRequired, http.MethodPost, path, payment)
			t.Logf("%4d bytes: %s", size, what)
			require.LessOrEqual(t, size, largest)
			require.NotEmpty(t, answer.Header.Get("PAYMENT-REQUIRED"))
			if response != "" {
				require.NotEmpty(t, answer.Header.Get(response))
			}
		}
		p := s.payment()
		refused("payment sent to /v1/quote", "/v1/quote", "", p.v2)
		facilitator.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Reason: longest})
		refused("refused by verify", "/v1/sponsor", "", p.v2)
		facilitator.Script(payoffertest.CallVerify)

		// What time alone decides without a chain is written into the ledger.
		facilitator.Script(payoffertest.CallSettle, payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseRead})
		s.requireProxied(http.StatusServiceUnavailable, http.MethodPost, "/v1/sponsor", p.v2)
		s.process.Terminate()
		s.process.Await(t)
		book := ledger.NewSQLite(s.ledger(), time.Now)
		require.NoError(t, book.Open(t.Context()))
		require.NoError(t, book.RefuseIntent(t.Context(), ledger.IntentKey{
			Network: "eip155:84532", Asset: strings.ToLower(chain.USDC.Hex()), From: strings.ToLower(p.From.Hex()), Nonce: p.Nonce.Hex(),
		}, longest))
		require.NoError(t, book.Close())
		s.start()
		refused("refused by settle, version 2", "/v1/sponsor", "PAYMENT-RESPONSE", p.v2)
		refused("refused by settle, version 1", "/v1/sponsor", "X-PAYMENT-RESPONSE", p.v1)
	})
}
