package instances

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/bitcoin"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/bitcoin/esplora"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/mpp"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/prices"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

const (
	cardSecret  = "whsec_of_the_card_rail"
	storeSecret = "0123456789abcdef0123456789abcdef"
	// vpub is the account of BIP-84's test mnemonic on a test network.
	vpub = "vpub5Y6cjg78GGuNLsaPhmYsiw4gYX3HoQiRBiSwDaBXKUafCt9bNwWQiitDk5VZ5BVxYnQdwoTyXSs2JHRPAgjAvtbBrf8ZhDYe2jWAqvZVnsc"
	// price is 42 USDC in atomic units.
	price = 42_000_000
)

// rails are all that the offer has, in its order.
var rails = []string{"card", "usdc", "btc", "transfer", "tip-jar"}

// caddyfile has an offer with every kind of rail. In braces and capitals stand what a test fills in: ADMIN, PORT and STORAGE
// for each instance, the rest for all.
const caddyfile = `{
	admin 127.0.0.1:{ADMIN}
	persist_config off
	default_bind 127.0.0.1
	storage file_system {STORAGE}
	pay_offer {
		ledger postgres {env.LEDGER_DSN}
	}
}
http://:{PORT} {
	pay_offer_page
	handle {
		pay_offer {
			base_url {BASE}
			id shop
			contact pay@example.org
			rate_limit 1000 1h
			card https://checkout.example/pay {
				payment_link plink_1
				webhook_secret {env.CARD_SECRET}
			}
			usdc base-sepolia {PAYEE} {
				facilitator {FACILITATOR}
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
		}
		respond "not ours" 404
	}
}
`

// shop is an offer whose instances stand behind a load balancer.
type shop struct {
	*testing.T
	base, storage string
	chain         *chain.Chain
	payee         common.Address
	facilitator   *payoffertest.Facilitator
	values, env   []string
	instances     []*instance
}

// instance is one server of the offer.
type instance struct {
	*server.Process
	name, url, admin string
}

// openShop starts what an offer needs of the world, a number of instances, and nginx in front of them.
func openShop(t *testing.T, count int) *shop {
	t.Helper()
	lab.RequireNginx(t)
	port := payoffertest.FreePort(t)
	s := &shop{
		T: t, base: "http://localhost:" + port, storage: t.TempDir(), chain: chain.Start(t), facilitator: payoffertest.NewFacilitator(t),
	}
	_, err := rand.Read(s.payee[:])
	require.NoError(t, err)
	s.values = []string{
		"{BASE}", s.base, "{PAYEE}", s.payee.Hex(), "{FACILITATOR}", s.facilitator.URL(), "{RPC}", s.chain.URL, "{ACCOUNT}", vpub,
		"{ESPLORA}", strings.Join(esplora.StartTwo(t, bitcoin.Start(t), bitcoin.Params, &chaincfg.TestNet3Params), " "),
	}
	s.env = append(prices.Start(t), "CARD_SECRET="+cardSecret, "STORE_SECRET="+storeSecret, "LEDGER_DSN="+postgres.Shared(t).DSN(t))
	var ports []string
	for range count {
		ports = append(ports, payoffertest.FreePort(t))
	}
	lab.StartNginx(t, port, ports...)
	for n, port := range ports {
		s.instances = append(s.instances, s.open(fmt.Sprint("instance ", n+1), port))
	}
	return s
}

// config is the Caddyfile of an instance, without its admin address.
func (s *shop) config(port, storage string) string {
	return strings.NewReplacer(append(s.values, "{PORT}", port, "{STORAGE}", storage)...).Replace(caddyfile)
}

// open starts an instance and returns when it answers for every rail.
func (s *shop) open(name, port string) *instance {
	s.Helper()
	i := &instance{name: name, url: "http://localhost:" + port, admin: "127.0.0.1:" + payoffertest.FreePort(s)}
	_, admin, _ := strings.Cut(i.admin, ":")
	i.Process = server.Start(s, i.url, strings.Replace(s.config(port, s.storage), "{ADMIN}", admin, 1), s.env...)
	server.Eventually(s, name+" observes every rail", func() bool {
		for _, rail := range rails {
			if s.do(i.url, request{path: "/v1/pay/" + rail + ".png"}).Status != http.StatusFound {
				return false
			}
		}
		answer := s.do(i.url, request{path: "/v1/received"})
		unknown := strings.Count(answer.Body, `"state":"unknown"`)
		return answer.Status == http.StatusOK && unknown == 1 // the storefront, which has no token
	})
	return i
}

// request is one use of the offer. The method is GET unless it is set.
type request struct {
	method, path, body string
	header             http.Header
}

func (r request) String() string {
	return fmt.Sprintf("%s %s %v %.300s", r.method, r.path, r.header, r.body)
}

// do sends a request to an instance or to nginx, as if it came to the offer's own address.
func (s *shop) do(origin string, r request) server.Answer {
	s.Helper()
	asked := lab.Must(http.NewRequestWithContext(s.Context(), r.method, origin+r.path, strings.NewReader(r.body)))(s)
	asked.Host = strings.TrimPrefix(s.base, "http://")
	for name, values := range r.header {
		asked.Header[name] = values
	}
	got := lab.Must(server.Client.Do(asked))(s)
	defer got.Body.Close()
	body := lab.Must(io.ReadAll(got.Body))(s)
	return server.Answer{Status: got.StatusCode, Header: got.Header, Body: string(body)}
}

// run runs a command of the released binary with some standard input.
func (s *shop) run(stdin string, arguments ...string) (string, error) {
	s.Helper()
	command := exec.CommandContext(s.Context(), server.Released(s), append([]string{"pay-offer"}, arguments...)...)
	command.Stdin, command.Env, command.Dir = strings.NewReader(stdin), append(slices.Concat(s.env, server.Inherited()), "HOME="+s.TempDir()), s.TempDir()
	output, err := command.CombinedOutput()
	return string(output), err
}

// payment signs a payment.
func (s *shop) payment() request {
	s.Helper()
	a := chain.NewAuthorization(s, chain.Address(s.chain.Buyers[0]), s.payee, price)
	return request{method: http.MethodPost, path: "/v1/sponsor", header: chain.Payment(s, a.Payload(s.sign(a)))}
}

// answering signs a payment that answers a challenge of the Payment scheme.
func (s *shop) answering(challenge mpp.Challenge) request {
	s.Helper()
	a := chain.NewAuthorization(s, chain.Address(s.chain.Buyers[0]), s.payee, price)
	a.Nonce = challenge.Nonce()
	return request{
		method: http.MethodPost, path: "/v1/sponsor",
		header: http.Header{"Authorization": {mpp.Authorization(s, challenge.Credential(a, s.sign(a)))}},
	}
}

// sign signs an authorization, which the facilitator settles on the chain.
func (s *shop) sign(a chain.Authorization) hexutil.Bytes {
	s.Helper()
	signature := a.Sign(s, s.chain.Buyers[0])
	s.facilitator.OnBroadcast(func(payoffertest.Settlement) (string, error) {
		transaction, err := s.chain.Send(s.chain.USDC, a.Call(s, signature))
		return transaction.Hex(), err
	})
	return signature
}
