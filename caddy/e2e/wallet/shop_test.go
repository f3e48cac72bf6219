package wallet

import (
	"crypto/ecdsa"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/browser"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/prices"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// price is that of an offer in atomic units of USDC.
const price = 42_000_000

// market is what the tests share: a chain, the official facilitator behind a line that may break, and a browser.
type market struct {
	chain       *chain.Chain
	browser     *browser.Browser
	facilitator string
	line        atomic.Value // of line
	visits      int
	// plain sells by card and USDC, whole by every payment method, and blind does not read the chain.
	plain, whole, blind *shop
}

// line is the state of the line to the facilitator.
type line string

const (
	works     line = "works"
	isDown    line = "is down"
	losesPaid line = "loses the answer to a settlement"
)

func openMarket(t *testing.T) *market {
	t.Helper()
	m := &market{browser: browser.Run(t, "caddy/e2e/wallet/wallet.mjs"), chain: chain.Start(t)}
	m.line.Store(works)
	official, err := url.Parse(node.StartFacilitator(t, m.chain.URL, m.chain.Facilitator))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(official)
	proxy.Transport = lab.WholeBodies
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case m.line.Load() == isDown:
			panic(http.ErrAbortHandler)
		case m.line.Load() == losesPaid && r.URL.Path == "/settle":
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	m.facilitator = front.URL
	m.plain, m.whole, m.blind = m.open(t, nil), m.openWhole(t), m.open(t, nil, "rpc {RPC}", "rpc off", "\t\t\tconfirm latest\n", "")
	return m
}

// shop is a server with a payee of its own.
type shop struct {
	*market
	*server.Victim
	environment []string
	url         string
	payee       common.Address
	// before is how many payments came before those that are counted.
	before int
}

// open starts a shop. replace are pairs of a text of its Caddyfile and another.
func (m *market) open(t *testing.T, environment []string, replace ...string) *shop {
	t.Helper()
	port := payoffertest.FreePort(t)
	s := &shop{market: m, environment: environment, payee: chain.NewAddress(t), url: "http://localhost:" + port}
	replace = append(replace, "\t\tcard ", "\t\trate_limit 1000 1m\n\t\tthanks \"Your licence comes by e-mail.\"\n\t\tcard ") // all come from one address
	caddyfile := strings.NewReplacer(replace...).Replace(server.PayableCaddyfile)
	s.Victim = server.NewVictimOf(t, server.Released(t), s.url, strings.NewReplacer(
		"{DIR}", t.TempDir(), "{PORT}", port, "{PAYEE}", s.payee.Hex(), "{FACILITATOR}", m.facilitator, "{RPC}", m.chain.URL,
	).Replace(caddyfile))
	s.start(t)
	return s
}

// otherMethods are the lines of an offer for every payment method that the shared Caddyfile lacks.
const otherMethods = `
		bitcoin tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx {
			rates mempool
			esplora off
		}
		bank_transfer transfer pay@example.org {
			account_holder "Example"
			iban DE75512108001245126199
			price_eur 39
		}
		storefront tip-jar https://shop.example/tip
	}
	respond 404`

// openWhole starts a shop with every payment method, and waits until Bitcoin has a price and a code.
func (m *market) openWhole(t *testing.T) *shop {
	t.Helper()
	s := m.open(t, prices.Start(t), "\n\t}\n\trespond 404", otherMethods)
	server.Eventually(t, "Bitcoin has a price and a code", func() bool {
		a, err := server.Do(server.Client, http.MethodGet, s.url+"/v1/pay/btc.png", "", nil)
		return err == nil && a.Status == http.StatusFound
	})
	return s
}

func (s *shop) start(t testing.TB) {
	t.Helper()
	s.Launch(t, s.environment...)
	require.True(t, s.Answers(t))
}

// enter is the shop for a test that counts its own payments.
func (s *shop) enter(t testing.TB) *shop {
	t.Helper()
	s.line.Store(works)
	entered := *s
	entered.before = len(s.chain.TransfersTo(t, s.payee))
	return &entered
}

// visit has a person come with a funded wallet that is on the right network, or as change makes it.
func (s *shop) visit(t *testing.T, change ...func(*purse)) *visitor {
	t.Helper()
	return s.visitAs(t, options{}, s.buyer(), change...)
}

// buyer is one of those who can pay often, each in turn.
func (m *market) buyer() *ecdsa.PrivateKey {
	m.visits++
	return m.chain.Buyers[m.visits%len(m.chain.Buyers)]
}

// timed is visit with a clock that only the test moves.
func (s *shop) timed(t *testing.T, change ...func(*purse)) *visitor {
	t.Helper()
	return s.visitAs(t, options{"clock": true}, s.buyer(), change...)
}

func (s *shop) visitAs(t *testing.T, given options, key *ecdsa.PrivateKey, change ...func(*purse)) *visitor {
	t.Helper()
	v := &visitor{browser: s.browser, shop: s, key: key, name: t.Name()}
	v.purse = purse{Name: "Purse", Key: privateKey(key), RPC: s.chain.URL, Chain: baseSepolia, Known: []string{baseSepolia}}
	p := v.purse
	also(change...)(&p)
	if given["wallets"] == nil {
		given["wallets"] = []purse{p}
	}
	v.done(t, "meet", given)
	t.Cleanup(func() { v.done(t, "leave", nil) })
	return v
}

// requirePaid requires that exactly so many payments of the price are on the chain.
func (s *shop) requirePaid(t *testing.T, payments int) {
	t.Helper()
	require.Len(t, s.chain.TransfersTo(t, s.payee), s.before+payments)
	require.Equal(t, big.NewInt(int64(s.before+payments)*price).String(), s.chain.BalanceOf(t, s.payee).String())
}
