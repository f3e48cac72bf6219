// Package arrive looks at the pages that tell what arrived, in Chromium while payments come by
// a wallet, by card and by Bitcoin.
package arrive

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/bitcoin"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/bitcoin/esplora"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/prices"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	cardSecret  = "whsec_of_the_card_rail_0123"
	storeSecret = "0123456789abcdef0123456789abcdef"
	// bitcoinAddress is one of the test networks.
	bitcoinAddress = "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx"
	// patience is how long something may take that happens in the background.
	patience = time.Minute
)

// caddyfile is an offer by every payment method, USDC on the simulated chain. In braces and capitals stand what a test fills in.
const caddyfile = `{
	admin 127.0.0.1:{ADMIN}
	persist_config off
	default_bind 127.0.0.1
	pay_offer {
		ledger sqlite {DIR}/ledger.db
	}
}
http://localhost:{PORT} {
	pay_offer {
		base_url http://localhost:{PORT}
		id shop
		description "{DESCRIPTION}"
		thanks "Your licence comes by e-mail."
		card https://checkout.example/pay {
			payment_link plink_1
			webhook_secret {env.CARD_SECRET}
		}
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR}
			rpc {RPC}
			confirm finalized
		}
		bitcoin {ADDRESS} {
			rates mempool
			esplora {ESPLORA}
		}
		bank_transfer transfer pay@example.org
		storefront tip-jar https://shop.example/tip {
			product product-1
			hook_secret {env.STORE_SECRET}
		}
	}
	respond 404
}
`

// shop is a running server, and what it needs of the world.
type shop struct {
	*testing.T
	process    *server.Process
	url, admin string
	chain      *chain.Chain
	coins      *bitcoin.Node
	payee      common.Address
	values     []string // what stands in the Caddyfile for its braces
}

// openShop starts everything and returns when the chains are read.
func openShop(t *testing.T) *shop {
	t.Helper()
	port, admin := payoffertest.FreePort(t), payoffertest.FreePort(t)
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	s := &shop{
		T: t, url: "http://localhost:" + port, admin: "http://127.0.0.1:" + admin, chain: chain.Start(t), coins: bitcoin.Start(t), payee: chain.Address(key),
	}
	s.chain.Pause()
	s.values = []string{
		"{ADMIN}", admin, "{DIR}", t.TempDir(), "{PORT}", port, "{PAYEE}", s.payee.Hex(), "{FACILITATOR}", payoffertest.NewFacilitator(t).URL(),
		"{RPC}", s.chain.URL, "{ADDRESS}", bitcoinAddress,
		"{ESPLORA}", strings.Join(esplora.StartTwo(t, s.coins, bitcoin.Params, &chaincfg.TestNet3Params), " "),
	}
	s.process = server.Start(t, s.url, s.config("One fixed payment."), append(prices.Start(t), "CARD_SECRET="+cardSecret, "STORE_SECRET="+storeSecret)...)
	s.eventually("the chains are read", func() bool {
		var report struct{ Rails []struct{ State string } }
		require.NoError(t, json.Unmarshal([]byte(s.get("/v1/received", "application/json")), &report))
		return len(report.Rails) == 5 && report.Rails[1].State == "observed" && report.Rails[2].State == "observed"
	})
	return s
}

func (s *shop) config(description string) string {
	return strings.NewReplacer(append(s.values, "{DESCRIPTION}", description)...).Replace(caddyfile)
}

// get returns what must answer 200.
func (s *shop) get(path, accept string) string {
	s.Helper()
	request, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	require.NoError(s, err)
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	require.NoError(s, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(s, err)
	require.Equal(s, http.StatusOK, response.StatusCode, "%s: %s", path, body)
	return string(body)
}

// card delivers an event of a checkout session of the offer.
func (s *shop) card(kind, session, status string) {
	s.Helper()
	now := time.Now()
	body := fmt.Sprintf(`{"id":"evt_%s_%s","object":"event","type":"checkout.session.%s","livemode":true,"created":%d,"data":{"object":{
		"id":"cs_live_%[1]s","object":"checkout.session","mode":"payment","status":"complete","payment_status":"%[5]s","amount_total":4200,"currency":"usd",
		"livemode":true,"created":%[4]d,"payment_intent":"pi_%[1]s","payment_link":"plink_1"}}}`, session, status, kind, now.Unix(), status)
	request, err := http.NewRequest(http.MethodPost, s.url+"/v1/hook/card", strings.NewReader(body))
	require.NoError(s, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Stripe-Signature", payoffertest.SignDelivery([]byte(body), now, cardSecret))
	response, err := http.DefaultClient.Do(request)
	require.NoError(s, err)
	defer response.Body.Close()
	require.Equal(s, http.StatusOK, response.StatusCode)
}

// record enters a bank transfer by the operator's command.
func (s *shop) record() {
	s.Helper()
	output, err := exec.Command(server.Released(s), "pay-offer", "record", "--address", strings.TrimPrefix(s.admin, "http://"),
		"--rail", "transfer", "--reference", "INV-7", "--amount", "43").CombinedOutput()
	require.NoError(s, err, "%s", output)
}

// reload replaces the configuration by one with another description.
func (s *shop) reload(description string) {
	s.Helper()
	response, err := http.Post(s.admin+"/load", "text/caddyfile", strings.NewReader(s.config(description)))
	require.NoError(s, err)
	defer response.Body.Close()
	require.Equal(s, http.StatusOK, response.StatusCode)
}

// eventually polls until done, which must not take long.
func (s *shop) eventually(what string, done func() bool) {
	s.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		require.False(s, time.Now().After(deadline), "not in time: %s", what)
	}
}
