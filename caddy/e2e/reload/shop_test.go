package reload

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

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
	cardSecret  = "whsec_of_the_card_rail"
	storeSecret = "0123456789abcdef0123456789abcdef"
	// vpub is the account of BIP-84's test mnemonic on a test network.
	vpub = "vpub5Y6cjg78GGuNLsaPhmYsiw4gYX3HoQiRBiSwDaBXKUafCt9bNwWQiitDk5VZ5BVxYnQdwoTyXSs2JHRPAgjAvtbBrf8ZhDYe2jWAqvZVnsc"
)

// caddyfile has two offers: one with every kind of rail, and one whose chain and whose facilitator do not answer. In braces
// and capitals stand what a test fills in.
const caddyfile = `{
	admin 127.0.0.1:{ADMIN}
	persist_config off
	default_bind 127.0.0.1
	storage file_system {DIR}/storage
	{LOG}
	pay_offer {
		ledger sqlite {DIR}/ledger.db
	}
}
http://localhost:{PORT} {
	pay_offer {
		base_url http://localhost:{PORT}
		id shop
		description "{DESCRIPTION}"
		contact pay@example.org
		rate_limit 10 1h
		card https://checkout.example/pay {
			payment_link plink_1
			webhook_secret {env.CARD_SECRET}
		}
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR} {
				timeout 1m
			}
			rpc {RPC}
			confirm latest
		}
		bitcoin {ACCOUNT} {
			rates mempool
			esplora {ESPLORA}
		}
		bank_transfer transfer pay@example.org
		storefront tip-jar https://shop.example/tip {
			product product-1
			hook_secret {env.STORE_SECRET}
		}
		announce {RECEIVER} {
			secret {env.ANNOUNCE_SECRET}
		}
	}
	respond 404
}
http://localhost:{TROUBLED} {
	pay_offer {
		base_url http://localhost:{TROUBLED}
		id troubled
		description "{DESCRIPTION}"
		card https://checkout.example/pay
		usdc base-sepolia {OTHER_PAYEE} {
			facilitator {BROKEN}
			rpc http://127.0.0.1:{CLOSED}
			confirm latest
		}
	}
	respond 404
}
`

// shop is a running server with both offers, and what they need of the world.
type shop struct {
	*testing.T
	process              *server.Process
	url, troubled, admin string
	dir                  string
	chain                *chain.Chain
	coins                *bitcoin.Node
	payee                common.Address
	facilitator, broken  *payoffertest.Facilitator
	receiver             *payoffertest.Receiver
	values, env          []string // what stands in the Caddyfile for its braces, and the server's environment

	// held is closed when the facilitator may broadcast; nil holds nothing.
	held atomic.Pointer[chan struct{}]
}

// openShop starts everything and returns when all that is observed in the background is known. log is the option of the
// global block, if any.
func openShop(t *testing.T, log string) *shop {
	t.Helper()
	port, troubled, admin := payoffertest.FreePort(t), payoffertest.FreePort(t), payoffertest.FreePort(t)
	s := &shop{
		T: t, url: "http://localhost:" + port, troubled: "http://localhost:" + troubled, admin: "127.0.0.1:" + admin,
		dir: t.TempDir(), chain: chain.Start(t), payee: chain.NewAddress(t),
		facilitator: payoffertest.NewFacilitator(t), broken: payoffertest.NewFacilitator(t), receiver: payoffertest.NewReceiver(t),
	}
	s.chain.Pause()
	s.facilitator.OnBroadcast(s.broadcast)
	s.broken.Script(payoffertest.CallSupported, payoffertest.FacilitatorReply{Status: http.StatusInternalServerError})
	s.coins = bitcoin.Start(t)
	s.values = []string{
		"{ADMIN}", admin, "{DIR}", s.dir, "{PORT}", port, "{TROUBLED}", troubled, "{CLOSED}", payoffertest.FreePort(t),
		"{PAYEE}", s.payee.Hex(), "{OTHER_PAYEE}", chain.NewAddress(t).Hex(), "{FACILITATOR}", s.facilitator.URL(), "{BROKEN}", s.broken.URL(),
		"{RPC}", s.chain.URL, "{ACCOUNT}", vpub, "{ESPLORA}", strings.Join(esplora.StartTwo(t, s.coins, bitcoin.Params, &chaincfg.TestNet3Params), " "),
		"{RECEIVER}", s.receiver.URL(),
	}
	s.env = append(prices.Start(t), "CARD_SECRET="+cardSecret, "STORE_SECRET="+storeSecret, "ANNOUNCE_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	s.process = server.Start(t, s.url, s.config("First words.", log), s.env...)
	s.awaitHealth()
	return s
}

// config is the Caddyfile with a description and the global block's option for logs.
func (s *shop) config(description, log string) string {
	return strings.NewReplacer(append(s.values, "{DESCRIPTION}", description)...).Replace(strings.Replace(caddyfile, "{LOG}", log, 1))
}

// logTo is the option of the global block that writes every log to a file of the shop's folder.
func logTo(file string) string { return "log {\n\t\toutput file {DIR}/" + file + "\n\t}" }

// reload replaces the configuration, which must succeed.
func (s *shop) reload(config string) {
	s.Helper()
	a, err := server.Load(s.admin, config)
	require.NoError(s, err)
	require.Equal(s, http.StatusOK, a.Status, a.Body)
}

// path of a file of the shop's folder.
func (s *shop) path(file string) string { return filepath.Join(s.dir, file) }
