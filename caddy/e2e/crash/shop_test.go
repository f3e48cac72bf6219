package crash

import (
	"crypto/ecdsa"
	"crypto/rand"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// offerID is the offer's name in the ledger.
const offerID = "crash"

// content is what both gates open; paths are where payments are sent, in turn.
const content = "only payers read this"

var paths = []string{"/v1/sponsor", "/after/", "/first/"}

const template = `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	storage file_system {STORAGE}
	pay_offer {
		ledger {LEDGER}
	}
}
http://localhost:{PORT} {
	pay_offer {
		id crash
		base_url http://localhost:{PORT}
		site_url http://localhost:{PORT}
		amount 0.04
		rate_limit 10000 1s
		card https://checkout.example/pay
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR} {
				timeout 2s # a lease of a killed server on PostgreSQL then ends after 26 s
			}
			rpc {RPC}
			confirm latest
		}
	}
	pay_offer_gate /after/* {
		start /after/
	}
	pay_offer_gate /first/* {
		start /first/
		charge first
	}
	respond /after/* "` + content + `"
	respond /first/* "` + content + `"
	respond 404
}
`

// shop is a server with a ledger and a payee of its own on a market.
type shop struct {
	*server.Victim
	market *market
	payee  common.Address
	url    string
	ledger string // the file, unless dsn is set
	dsn    string
	client *http.Client
	// payments are all that were sent and are to be made, purchases those of buyers whose client signs anew, and deaths how
	// often the server was killed.
	payments  []*payment
	purchases []*purchase
	deaths    int
	// turn counts what is bought, for the next path.
	turn int
	// signing guards the payments of all purchases.
	signing sync.Mutex
}

func openShop(t *testing.T, m *market) *shop { return openShopAt(t, m, "") }

// openShopAt is openShop with a ledger in a PostgreSQL database.
func openShopAt(t *testing.T, m *market, dsn string) *shop {
	t.Helper()
	port := payoffertest.FreePort(t)
	s := &shop{
		market: m, payee: chain.NewAddress(t), url: "http://localhost:" + port,
		ledger: filepath.Join(t.TempDir(), "ledger.db"), dsn: dsn, client: &http.Client{Timeout: time.Minute},
	}
	t.Cleanup(s.client.CloseIdleConnections)
	at := "sqlite " + s.ledger
	if dsn != "" {
		at = fmt.Sprintf("postgres %q", dsn)
	}
	s.Victim = server.NewVictim(t, s.url, m.caddyfile(port, s.payee, at, t.TempDir()))
	return s
}

// caddyfile is an offer on a port of loopback that is paid to payee. Servers of one ledger share a storage.
func (m *market) caddyfile(port string, payee common.Address, ledger, storage string) string {
	return strings.NewReplacer(
		"{LEDGER}", ledger, "{STORAGE}", storage, "{PORT}", port, "{PAYEE}", payee.Hex(),
		"{FACILITATOR}", m.facilitator.URL(), "{RPC}", m.chain.URL,
	).Replace(template)
}

// start launches the server and waits until it answers, which it must.
func (s *shop) start(t *testing.T, env ...string) {
	t.Helper()
	s.Launch(t, env...)
	require.True(t, s.Answers(t), "the server ended by itself")
}

// payment signs the next payment of the shop, which is all of its purchase.
func (s *shop) payment(t *testing.T, buyer *ecdsa.PrivateKey) *payment {
	t.Helper()
	p := newPayment(t, buyer, s.payee, s.path(), rand.Text())
	s.payments = append(s.payments, p)
	return p
}

// path is where the next purchase is made.
func (s *shop) path() string {
	s.turn++
	return paths[(s.turn-1)%len(paths)]
}

// crash kills the server.
func (s *shop) crash(t *testing.T) {
	t.Helper()
	s.Kill()
	s.died(t)
}

// died requires that the server that has ended was killed.
func (s *shop) died(t *testing.T) {
	t.Helper()
	require.True(t, s.Killed(), "the server ended by itself")
	s.deaths++
}
