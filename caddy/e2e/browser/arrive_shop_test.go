package browser

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/ethereum/go-ethereum/common"
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
		lightning {WALLET}
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
	wallet     *payoffertest.Wallet
	payee      common.Address
	values     []string // what stands in the Caddyfile for its braces
}

// openShop starts everything and returns when the chains are read.
func openShop(t *testing.T) *shop {
	t.Helper()
	port, admin := payoffertest.FreePort(t), payoffertest.FreePort(t)
	s := &shop{
		T: t, url: "http://localhost:" + port, admin: "127.0.0.1:" + admin, chain: chain.Start(t), coins: bitcoin.Start(t), payee: chain.NewAddress(t),
		wallet: payoffertest.NewWallet(t, payoffertest.WalletAlby, time.Now),
	}
	s.chain.Pause()
	s.values = []string{
		"{ADMIN}", admin, "{DIR}", t.TempDir(), "{PORT}", port, "{PAYEE}", s.payee.Hex(), "{FACILITATOR}", payoffertest.NewFacilitator(t).URL(),
		"{RPC}", s.chain.URL, "{ADDRESS}", bitcoinAddress, "{WALLET}", s.wallet.Address(),
		"{ESPLORA}", strings.Join(esplora.StartTwo(t, s.coins, bitcoin.Params, &chaincfg.TestNet3Params), " "),
	}
	s.process = server.Start(t, s.url, s.config("One fixed payment."), append(prices.Start(t), "CARD_SECRET="+cardSecret, "STORE_SECRET="+storeSecret)...)
	server.Eventually(s, "the chains are read", func() bool {
		var report struct {
			Rails []struct{ Rail, State string }
		}
		require.NoError(t, json.Unmarshal([]byte(server.Get(s, s.url+"/v1/received", "application/json")), &report))
		states := map[string]string{}
		for _, rail := range report.Rails {
			states[rail.Rail] = rail.State
		}
		return states["usdc"] == "observed" && states["btc"] == "observed"
	})
	return s
}

func (s *shop) config(description string) string {
	return strings.NewReplacer(append(s.values, "{DESCRIPTION}", description)...).Replace(caddyfile)
}

// card delivers an event of a checkout session of the offer.
func (s *shop) card(kind, session, status string) {
	s.Helper()
	event := server.CardEvent("checkout.session."+kind, session, server.Checkout("live_"+session, status, 4200))
	a, err := server.Do(server.Client, http.MethodPost, s.url+"/v1/hook/card", event, server.CardHeader(event, cardSecret))
	require.NoError(s, err)
	require.Equal(s, http.StatusOK, a.Status)
}

// record enters a bank transfer by the operator's command.
func (s *shop) record() {
	s.Helper()
	output, err := server.Command(s, "", "record", "--address", s.admin, "--rail", "transfer", "--reference", "INV-7", "--amount", "43")
	require.NoError(s, err, output)
}

// reload replaces the configuration by one with another description.
func (s *shop) reload(description string) {
	s.Helper()
	a, err := server.Load(s.admin, s.config(description))
	require.NoError(s, err)
	require.Equal(s, http.StatusOK, a.Status, a.Body)
}
