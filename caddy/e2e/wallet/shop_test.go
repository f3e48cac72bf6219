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
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
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
	audited     map[string]bool
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
	m := &market{browser: browser.Run(t, "caddy/e2e/wallet/wallet.mjs"), chain: chain.Start(t), audited: map[string]bool{}}
	m.line.Store(works)
	official, err := url.Parse(node.StartFacilitator(t, m.chain.URL, m.chain.Facilitator))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(official)
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
	return m
}

// shop is a server with a payee of its own.
type shop struct {
	*market
	*server.Victim
	url   string
	payee common.Address
}

// open starts a shop. replace are pairs of a text of its Caddyfile and another.
func (m *market) open(t *testing.T, replace ...string) *shop {
	t.Helper()
	m.line.Store(works)
	port := payoffertest.FreePort(t)
	s := &shop{market: m, payee: chain.NewAddress(t), url: "http://localhost:" + port}
	caddyfile := strings.NewReplacer(replace...).Replace(server.PayableCaddyfile)
	s.Victim = server.NewVictimOf(t, server.Released(t), s.url, strings.NewReplacer(
		"{DIR}", t.TempDir(), "{PORT}", port, "{PAYEE}", s.payee.Hex(), "{FACILITATOR}", m.facilitator, "{RPC}", m.chain.URL,
	).Replace(caddyfile))
	s.start(t)
	return s
}

func (s *shop) start(t testing.TB) {
	t.Helper()
	s.Launch(t)
	require.True(t, s.Answers(t))
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

func (s *shop) visitAs(t *testing.T, given options, key *ecdsa.PrivateKey, change ...func(*purse)) *visitor {
	t.Helper()
	v := &visitor{browser: s.browser, shop: s, key: key, name: t.Name()}
	p := purse{Name: "Purse", Key: privateKey(key), RPC: s.chain.URL, Chain: baseSepolia, Known: []string{baseSepolia}}
	for _, f := range change {
		f(&p)
	}
	if given["wallets"] == nil {
		given["wallets"] = []purse{p}
	}
	v.done(t, "meet", given)
	t.Cleanup(func() { v.done(t, "leave", nil) })
	return v
}

// requirePaid requires that exactly so many payments of the price are on the chain.
func (s *shop) requirePaid(t *testing.T, payments int64) {
	t.Helper()
	require.Len(t, s.chain.TransfersTo(t, s.payee), int(payments))
	require.Equal(t, big.NewInt(payments*price).String(), s.chain.BalanceOf(t, s.payee).String())
}
