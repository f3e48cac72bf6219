package crash

import (
	"crypto/ecdsa"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// everything is more than there is of anything.
const everything = 1_000_000

// requireSound compares the chain with what the killed server left in its ledger.
func (s *shop) requireSound(t *testing.T) {
	t.Helper()
	t.Logf("kills=%d payments=%d restarts=%d", s.deaths, len(s.payments), s.Starts()-1)
	book := ledger.NewSQLite(s.ledger, time.Now)
	if s.dsn != "" {
		book = lab.Must(ledger.NewPostgres(s.dsn, time.Now))(t)
	}
	s.audit(t, book)
}

// audit compares the chain with a ledger, which it opens.
func (s *shop) audit(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	require.NoError(t, l.Open(t.Context()))
	defer func() { assert.NoError(t, l.Close()) }()
	s.compareTransfers(t, l)
	checkTransitions(t, l)
	checkTotals(t, l)
	s.checkIntents(t, l)
}

// compareTransfers requires one transfer and one row for each payment that was answered 200, and no others.
func (s *shop) compareTransfers(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	var rows, transfers []string
	receipts := lab.Must(l.Receipts(t.Context(), offerID, 0, everything))(t)
	for _, receipt := range receipts {
		assert.Contains(t, []ledger.Status{ledger.StatusSeen, ledger.StatusConfirmed}, receipt.Status)
		assert.EqualValues(t, price, receipt.Amount)
		rows = append(rows, receipt.ExternalID)
	}
	for _, transfer := range s.market.chain.TransfersTo(t, s.payee) {
		transfers = append(transfers, fmt.Sprintf("eip155:%d:%s:%d", s.market.chain.ID, transfer.Tx.Hex(), transfer.Ordinal))
	}
	assert.ElementsMatch(t, transfers, rows)
	assert.Len(t, transfers, len(s.payments))
	assert.Zero(t, s.market.chain.BalanceOf(t, s.payee).Cmp(big.NewInt(int64(len(s.payments))*price)))
}

// checkTransitions requires that the transitions of each row follow each other, and that none is announced twice.
func checkTransitions(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	transitions := lab.Must(l.Transitions(t.Context(), offerID, 0, everything))(t)
	last, seen := map[string]ledger.Transition{}, map[string]bool{}
	for _, transition := range transitions {
		before := last[transition.ExternalID]
		assert.Equal(t, before.Version+1, transition.Version, "%+v after %+v", transition, before)
		assert.Equal(t, before.To, transition.From, "%+v after %+v", transition, before)
		last[transition.ExternalID] = transition
		event := fmt.Sprint(transition.ExternalID, transition.To)
		assert.False(t, seen[event], "announced twice: %s", event)
		seen[event] = true
	}
}

// checkTotals compares the sums with what the rows add up to, both of one moment.
func checkTotals(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	assert.NoError(t, l.Check(t.Context()))
	totals := lab.Must(l.Totals(t.Context(), offerID))(t)
	for _, total := range totals {
		assert.NotContains(t, []ledger.Status{ledger.StatusSettling, ledger.StatusClaimed}, total.Status, "nothing is open and nothing only claimed")
	}
}

// checkIntents checks that the ledger knows each payment as settled, by the chain.
func (s *shop) checkIntents(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	for _, p := range s.payments {
		intent, known, err := l.Intent(t.Context(), p.key())
		require.NoError(t, err)
		assert.True(t, known)
		assert.Equal(t, ledger.IntentSettled, intent.State, "%+v", intent)
		assert.Equal(t, ledger.EvidenceChain, intent.Evidence, "%+v", intent)
	}
}

const (
	// price is what the offers of this package cost, 0.04 USDC in atomic units: little, so that the money of one chain
	// is enough for thousands of payments.
	price = 40_000
	// purse is how many payments a buyer can make who buys more than once.
	purse = 20
)

// market is what a crash of a server does not touch: the chain, the facilitator and the buyers.
type market struct {
	chain       *chain.Chain
	facilitator *payoffertest.Facilitator
	buyers      []*ecdsa.PrivateKey
}

// openMarket starts a chain with so many buyers, who can make so many payments, and a facilitator that broadcasts to it.
func openMarket(t *testing.T, buyers int, payments int64) *market {
	t.Helper()
	m := &market{chain: chain.Start(t), facilitator: payoffertest.NewFacilitator(t)}
	m.facilitator.OnBroadcast(func(s payoffertest.Settlement) (string, error) { return m.broadcast(t, s) })
	for range buyers {
		m.buyers = append(m.buyers, m.newBuyer(t, payments))
	}
	last := chain.Address(m.buyers[buyers-1])
	require.Eventually(t, func() bool { return m.chain.BalanceOf(t, last).Cmp(big.NewInt(payments*price)) == 0 },
		time.Minute, 100*time.Millisecond, "the buyers get no money")
	return m
}

// newBuyer asks for the money of so many payments, which is there with the next block.
func (m *market) newBuyer(t *testing.T, payments int64) *ecdsa.PrivateKey {
	t.Helper()
	key := chain.NewKey(t)
	gift := chain.NewAuthorization(t, chain.Wallet, chain.Address(key), payments*price)
	call := gift.Call(t, []byte("whatever the wallet takes"))
	require.Eventually(t, func() bool {
		_, err := m.chain.Send(m.chain.USDC, call)
		return err == nil // while a block is made, the sender's next nonce is not sure
	}, time.Minute, time.Millisecond)
	return key
}

// broadcast tries a call, as the reference facilitator does, and does not wait for its block: a crash then finds
// payments in every state.
func (m *market) broadcast(t *testing.T, s payoffertest.Settlement) (string, error) {
	hash, err := m.chain.Broadcast(t, s)
	return hash.Hex(), err
}

// Copies of one payment, and servers that get them at the same time.
const (
	copies    = 200
	instances = 4
)

func TestPaymentCopiesSettledOnceAcrossServers(t *testing.T) {
	t.Parallel()
	dsn, storage := postgres.Start(t).DSN(t), t.TempDir()
	m := openMarket(t, 1, purse)
	s := &shop{market: m, payee: chain.NewAddress(t), client: &http.Client{Timeout: time.Minute}}
	defer s.client.CloseIdleConnections()
	var urls []string
	for range instances {
		port := payoffertest.FreePort(t)
		s.url = "http://localhost:" + port
		server.Start(t, s.url, m.caddyfile(port, s.payee, fmt.Sprintf("postgres %q", dsn), storage))
		require.Eventually(t, s.recovered, patience, again, "the ledger is not open")
		urls = append(urls, s.url)
	}

	p := s.payment(t, m.buyers[0])
	answers := make([]answer, copies)
	errs := make([]error, copies)
	var work sync.WaitGroup
	for i := range copies {
		work.Go(func() { answers[i], errs[i] = p.send(s.client, urls[i%instances]) })
	}
	work.Wait()
	for i := range copies {
		require.NoError(t, errs[i])
		require.Equal(t, http.StatusOK, answers[i].status, answers[i].body)
		// The body links to the server that wrote it.
		answers[i].body = strings.ReplaceAll(answers[i].body, urls[i%instances], "")
		require.Equal(t, answers[0], answers[i])
	}
	require.Len(t, m.facilitator.Calls(payoffertest.CallSettle), 1)

	book := lab.Must(ledger.NewPostgres(dsn, time.Now))(t)
	s.audit(t, book)
}
