package soak

import (
	"crypto/ecdsa"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/prices"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

const (
	cardSecret  = "whsec_of_the_card_rail"
	storeSecret = "0123456789abcdef0123456789abcdef"
	// price is 0.30 USDC in atomic units: little, so that the money of one chain is enough for thousands of payments, and more
	// than dust in satoshis.
	price = 300_000
	// patience is how long anything may take, again how long to wait before it is looked at again.
	patience, again = time.Minute, 50 * time.Millisecond
)

// caddyfile is an offer with rails of every kind. In braces and capitals stand what a test fills in.
const caddyfile = `{
	admin 127.0.0.1:{ADMIN}
	persist_config off
	default_bind 127.0.0.1
	storage file_system {DIR}
	pay_offer {
		ledger {LEDGER}
	}
}
http://localhost:{PORT} {
	pay_offer {
		base_url http://localhost:{PORT}
		id shop
		description "{DESCRIPTION}"
		contact pay@example.org
		amount 0.30
		rate_limit 10000 1s
		card https://checkout.example/pay {
			payment_link plink_1
			webhook_secret {env.CARD_SECRET}
		}
		usdc base-sepolia {PAYEE} {
			facilitator {FIRST}
			facilitator {SECOND}
			rpc {RPC}
			confirm latest
		}
		bitcoin tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx {
			rates mempool
			esplora off
		}
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
`

// shop is a running server with an offer, and what it needs of the world.
type shop struct {
	*testing.T
	process      *server.Process
	url, admin   string
	config       string // without its description
	ledger       string // the file, or the address of the database
	database     *postgres.Server
	chain        *chain.Chain
	payee        common.Address
	buyers       []*ecdsa.PrivateKey // who pay next
	facilitators [2]*payoffertest.Facilitator
	market       market
	rates        *payoffertest.Prices
	receiver     *payoffertest.Receiver
	client       *http.Client

	// now is the disturbance until the shop has recovered from it.
	now                          atomic.Pointer[disturbance]
	answers, deliveries, reloads atomic.Int64
	paid                         []*payment
	found                        lab.Failures
}

// openShop starts everything. The ledger is a file where there is no database.
func openShop(t *testing.T, database *postgres.Server) *shop {
	t.Helper()
	port, admin, folder := payoffertest.FreePort(t), payoffertest.FreePort(t), t.TempDir()
	s := &shop{
		T: t, url: "http://localhost:" + port, admin: "127.0.0.1:" + admin, database: database, chain: chain.Start(t),
		ledger: filepath.Join(folder, "ledger.db"), rates: payoffertest.NewPrices(t, time.Now), receiver: payoffertest.NewReceiver(t),
		client: &http.Client{Timeout: patience, CheckRedirect: server.Stay},
	}
	t.Cleanup(s.client.CloseIdleConnections)
	s.now.Store(&disturbance{})
	s.market = market{chain: s.chain, sent: map[string]bool{}}
	for i := range s.facilitators {
		s.facilitators[i] = payoffertest.NewFacilitator(t)
		s.facilitators[i].OnBroadcast(s.market.broadcaster(t))
	}
	s.payee = chain.NewAddress(t)
	s.buyers = s.market.newBuyers(t, payments)
	ledger := "sqlite " + s.ledger
	if database != nil {
		s.ledger = database.DSN(t)
		ledger = "postgres {env.LEDGER_DSN}"
	}
	s.config = strings.NewReplacer("{ADMIN}", admin, "{DIR}", folder, "{LEDGER}", ledger, "{PORT}", port, "{PAYEE}", s.payee.Hex(),
		"{FIRST}", s.facilitators[0].URL(), "{SECOND}", s.facilitators[1].URL(), "{RPC}", s.chain.URL, "{RECEIVER}", s.receiver.URL()).Replace(caddyfile)
	s.process = server.Start(t, s.url, s.described(0), append(prices.StartOf(t, s.rates), "LEDGER_DSN="+s.ledger,
		"CARD_SECRET="+cardSecret, "STORE_SECRET="+storeSecret, "ANNOUNCE_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")...)
	server.Eventually(s, "the shop is open", func() bool { return s.recovered() && s.status("/v1/pay/btc.uri") == http.StatusOK })
	return s
}

// described is the configuration with one of two descriptions.
func (s *shop) described(n int64) string {
	return strings.Replace(s.config, "{DESCRIPTION}", fmt.Sprintf("Words %d.", n%2), 1)
}

// status is that of a GET, 0 without a response.
func (s *shop) status(path string) int {
	a, _ := server.Do(s.client, http.MethodGet, s.url+path, "", nil)
	return a.Status
}

// recovered reports whether the shop reads its ledger.
func (s *shop) recovered() bool { return s.status("/v1/received") == http.StatusOK }

// reloadEverySecond replaces the configuration, in turn by an equal one and by another, until it is stopped.
func (s *shop) reloadEverySecond() (stop func()) {
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticks.C:
				s.reload()
			}
		}
	}()
	return func() {
		close(ended)
		<-stopped
	}
}

// reload is one, which may fail only while the database is away: then the former configuration stays.
func (s *shop) reload() {
	caused := s.now.Load()
	a, err := server.Load(s.admin, s.described(s.reloads.Load()/2))
	switch {
	case err != nil:
		s.found.Add("a reload", err.Error())
	case a.Status != http.StatusOK && !caused.touches[database] && !s.now.Load().touches[database]:
		s.found.Add("a reload", a.Body)
	}
	s.reloads.Add(1)
}
