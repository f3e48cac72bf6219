package reload

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// removedCaddyfile has one offer whose settlements no chain proves. {OFFER} is offerBlock, or nothing.
const removedCaddyfile = `{
	admin 127.0.0.1:{ADMIN}
	persist_config off
	default_bind 127.0.0.1
	{LEDGER}
}
http://localhost:{PORT} {
	{OFFER}
	respond 404
}
`

const offerBlock = `pay_offer {
		base_url http://localhost:{PORT}
		description "{DESCRIPTION}"
		card https://checkout.example/pay
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR} {
				timeout 1m
			}
			rpc off
		}
	}`

// The first reload changes the offer and the second removes it while the facilitator has not answered yet. The payment is
// recorded all the same, and the offer that a third reload puts back goes on with it.
func TestAPaymentIsRecordedAlthoughItsOfferIsRemovedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		hangs string
		// back says that the offer is put back before the facilitator answers.
		back bool
	}{
		"during verify":                         {payoffertest.CallVerify, false},
		"during settle":                         {payoffertest.CallSettle, false},
		"during verify, and put back meanwhile": {payoffertest.CallVerify, true},
		"during settle, and put back meanwhile": {payoffertest.CallSettle, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port, admin := payoffertest.FreePort(t), payoffertest.FreePort(t)
			s := &shop{
				T: t, url: "http://localhost:" + port, admin: "127.0.0.1:" + admin, payee: chain.NewAddress(t),
				chain: &chain.Chain{Network: chain.BaseSepolia}, facilitator: payoffertest.NewFacilitator(t),
			}
			config := func(offer, description string) string {
				ledger := ""
				if offer != "" {
					ledger = "pay_offer {\n\t\tledger sqlite " + s.path("ledger.db") + "\n\t}"
				}
				return strings.NewReplacer("{ADMIN}", admin, "{PORT}", port, "{PAYEE}", s.payee.Hex(), "{FACILITATOR}", s.facilitator.URL(), "{DESCRIPTION}", description).
					Replace(strings.NewReplacer("{LEDGER}", ledger, "{OFFER}", offer).Replace(removedCaddyfile))
			}
			s.dir = t.TempDir()
			s.facilitator.Script(c.hangs, payoffertest.FacilitatorReply{Fault: payoffertest.FaultHang})
			server.Start(t, s.url, config(offerBlock, "First words."))
			payment, paid := s.sign(chain.NewKey(t)), make(chan server.Answer, 1)
			go func() { paid <- s.pay(server.Client, payment) }()
			s.facilitator.Await(c.hangs, 1)

			s.reload(config(offerBlock, "Other words."))
			s.reload(config("", ""))
			server.Eventually(s, "the offer is removed", func() bool {
				return server.Ask(server.Client, http.MethodGet, s.url+"/v1/quote", "", nil).Status == http.StatusNotFound
			})
			if c.back {
				s.reload(config(offerBlock, "First words."))
			}
			s.facilitator.Release()
			first := <-paid
			require.NotEmpty(t, transaction(first), "%d: %s", first.Status, first.Body)
			if !c.back {
				s.reload(config(offerBlock, "First words."))
			}

			server.Eventually(s, "the ledger is read", func() bool {
				return server.Ask(server.Client, http.MethodGet, s.url+"/v1/received", "", nil).Status == http.StatusOK
			})
			again := s.pay(server.Client, payment)
			require.Equal(t, transaction(first), transaction(again), "%d: %s", again.Status, again.Body)
			require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1)
		})
	}
}
