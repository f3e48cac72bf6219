// Package attack proves that nobody can shut the rail and that nobody pays twice: the built server before strangers who
// forge and replay, before buyers who sign anew, and before facilitators that throw, hang and lie.
package attack

import (
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// rail is where a shop takes payments.
type rail struct {
	network string
	// rpc is where the chain is read, or "off".
	rpc string
	// facilitators settle.
	facilitators []string
}

// shop is the built server with an offer, behind a proxy that tells from where its buyers come.
type shop struct {
	*market
	payee             common.Address
	url, path, config string
	chains            int // that are read
	process           *server.Process
	// client keeps its connections: a buyer who hangs up is in doubt.
	client *http.Client
}

const caddyfile = `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	servers {
		trusted_proxies static 127.0.0.1
	}
	storage file_system {LEDGER}-storage
	pay_offer {
		ledger sqlite {LEDGER}
	}
}
http://localhost:{PORT} {
	pay_offer {
		id sponsor
		base_url http://localhost:{PORT}
		site_url http://localhost:{PORT}
		amount {PRICE}
		rate_limit {LIMIT}
		card https://checkout.example/pay
{RAILS}	}
	respond 404
}
`

// Limits of the attempts of one address: that of an offer which sets none, and one that nobody reaches.
const (
	usual     = "10 1m"
	unlimited = "1000 1m"
)

// openShop starts the server.
func openShop(m *market, payee common.Address, limit string, rails ...rail) *shop {
	m.Helper()
	port := payoffertest.FreePort(m)
	s := &shop{market: m, payee: payee, url: "http://localhost:" + port, path: filepath.Join(m.TempDir(), "ledger.db")}
	var text strings.Builder
	for _, r := range rails {
		text.WriteString("\t\tusdc " + r.network + " " + payee.Hex() + " {\n")
		for _, facilitator := range r.facilitators {
			text.WriteString("\t\t\tfacilitator " + facilitator + " {\n\t\t\t\ttimeout 10s\n\t\t\t}\n")
		}
		text.WriteString("\t\t\trpc " + r.rpc + "\n")
		if r.rpc != "off" {
			text.WriteString("\t\t\tconfirm latest\n")
			s.chains++
		}
		text.WriteString("\t\t}\n")
	}
	s.config = strings.NewReplacer("{LEDGER}", s.path, "{PORT}", port, "{PRICE}", dollars, "{LIMIT}", limit, "{RAILS}", text.String()).
		Replace(caddyfile)
	s.open()
	return s
}

// open starts the server, also again on the same ledger, and waits until the chains are read.
func (s *shop) open() {
	s.Helper()
	s.process = server.Start(s, s.url, s.config)
	s.client = &http.Client{Transport: new(http.Transport), Timeout: 2 * time.Minute}
	s.Cleanup(s.client.CloseIdleConnections)
	// Caddy may open the port before the ledger.
	s.eventually("the chains are read", func() bool {
		report, err := s.received()
		unread := s.chains
		for _, r := range report.Rails {
			if r.ObservedThrough != "" {
				unread--
			}
		}
		return err == nil && unread == 0
	})
}

// byEach runs a test for each transport at the same time, all in this shop.
func (s *shop) byEach(test func(s *shop, name string, send transport)) {
	for name, send := range transports {
		buyer := s.buyer()
		s.Run(name, func(t *testing.T) {
			t.Parallel()
			own := *s
			own.market = &market{T: t, ground: s.ground, buyers: []*ecdsa.PrivateKey{buyer}}
			test(&own, name, send)
		})
	}
}

// railReport is what the shop reports of a rail.
type railReport struct {
	ObservedThrough string
}

// received asks for the report of what was received.
func (s *shop) received() (report struct{ Rails []railReport }, err error) {
	answer, err := s.client.Get(s.url + "/v1/received")
	if err != nil {
		return report, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return report, errors.New(answer.Status)
	}
	return report, json.NewDecoder(answer.Body).Decode(&report)
}

// close stops the server and waits until it is gone.
func (s *shop) close() {
	s.Helper()
	s.process.Terminate()
	s.process.Await(s)
}

// payee is an account that nobody has used.
func (m *market) payee() common.Address {
	m.Helper()
	return chain.Address(m.stranger())
}

// eventually polls until done, which must not take long.
func (m *market) eventually(what string, done func() bool) {
	m.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(100 * time.Millisecond) {
		require.False(m, time.Now().After(deadline), "not in time: %s", what)
	}
}

const (
	// price is what the offers of this package cost, 0.42 USDC in atomic units, and dollars the same: little, so that the
	// money of one chain is enough for many payments.
	price   = 420_000
	dollars = "0.42"
	// purse is how many payments a buyer can make.
	purse = 6
)

// patience is how long something may take that happens in the background.
const patience = 30 * time.Second

// ground is what all tests share: a chain, and the official facilitator on it. Each test has buyers and a payee of its own.
type ground struct {
	chain *chain.Chain
	// sending keeps two transactions of one account from taking the same number.
	sending  sync.Mutex
	official lab.Shared[string]
}

var shared lab.Shared[*ground]

// market is the ground of one test, with its buyers.
type market struct {
	*testing.T
	*ground

	mu     sync.Mutex
	buyers []*ecdsa.PrivateKey
}

// openMarket returns a market with so many buyers who have money.
func openMarket(t *testing.T, buyers int) *market {
	t.Helper()
	m := &market{T: t, ground: shared.Get(t, func(t testing.TB) *ground { return &ground{chain: chain.Start(t)} })}
	for range buyers {
		m.buyers = append(m.buyers, m.stranger())
		m.fund(m.buyers[len(m.buyers)-1])
	}
	require.Eventually(t, func() bool { return m.funded(chain.Address(m.buyers[buyers-1])) }, patience, 50*time.Millisecond)
	return m
}

// facilitator is the address of the official facilitator. The Payer pays for its transactions, and for no others.
func (m *market) facilitator() string {
	m.Helper()
	lab.RequireNode(m)
	return m.official.Get(m, func(t testing.TB) string { return node.StartFacilitator(t, m.chain.URL, m.chain.Payer) })
}

func (m *market) stranger() *ecdsa.PrivateKey {
	m.Helper()
	key := lab.Must(crypto.GenerateKey())(m)
	return key
}

// fund asks for a full purse, which is there with the next block.
func (m *market) fund(key *ecdsa.PrivateKey) {
	m.Helper()
	gift := chain.NewAuthorization(m, chain.Wallet, chain.Address(key), purse*price)
	call := gift.Call(m, []byte("whatever the wallet takes"))
	require.Eventually(m, func() bool {
		_, err := m.chain.Send(m.chain.USDC, call)
		return err == nil // while a block is made, the sender's next number is not sure
	}, patience, time.Millisecond)
}

func (m *market) funded(account common.Address) bool {
	return m.chain.BalanceOf(m, account).Cmp(big.NewInt(price)) >= 0
}

// buyer is the next who has bought nothing yet.
func (m *market) buyer() *ecdsa.PrivateKey {
	m.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	require.NotEmpty(m, m.buyers, "no buyer is left")
	next := m.buyers[0]
	m.buyers = m.buyers[1:]
	return next
}

var errReverted = errors.New("the transaction was reverted")

// broadcast tries a call before it pays for it, and returns when it is in a block. It may run beside the test's goroutine.
func (m *market) broadcast(call []byte) (common.Hash, error) {
	hash, err := m.send(call)
	if err == nil {
		err = m.awaitBlock(hash)
	}
	return hash, err
}

// awaitBlock returns when a transaction is in a block.
func (m *market) awaitBlock(hash common.Hash) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if m.chain.Succeeded(m, hash) {
			return nil
		}
	}
	return errReverted
}

func (m *market) send(call []byte) (common.Hash, error) {
	m.sending.Lock()
	defer m.sending.Unlock()
	if err := m.chain.Try(m.chain.USDC, call); err != nil {
		return common.Hash{}, err
	}
	return m.chain.Send(m.chain.USDC, call)
}

// byStranger broadcasts a call as somebody who has nothing to do with the sale.
func (m *market) byStranger(call []byte) common.Hash {
	m.Helper()
	hash := lab.Must(m.broadcast(call))(m)
	return hash
}

// charges are the transactions in which a buyer has paid a payee, oldest first.
func (m *market) charges(payee common.Address, by *ecdsa.PrivateKey) (transactions []common.Hash) {
	m.Helper()
	for _, transfer := range m.chain.TransfersTo(m, payee) {
		if transfer.From == chain.Address(by) {
			transactions = append(transactions, transfer.Tx)
		}
	}
	return transactions
}
