// Package transfers proves that receipts of USDC are what the chain says, no more and no less, whatever becomes of its
// blocks and whatever its endpoints answer: the observer and its ledger work in this process against a simulated chain.
package transfers

import (
	"crypto/rand"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	// price is 14 USDC in atomic units: the Wallet pays it seventy times.
	price   = 14_000_000
	offerID = "sponsor"
	// poll is how much time passes between two rounds.
	poll = 4 * time.Second
)

// clock is the observer's time.
type clock struct{ passed atomic.Int64 }

func (c *clock) Now() time.Time { return time.Now().Add(time.Duration(c.passed.Load())) }

// till is one USDC rail at work.
type till struct {
	*testing.T
	chain  *chain.Chain
	payee  common.Address
	clock  *clock
	ledger *ledger.Ledger
	// rpc are the endpoints.
	rpc []*proxy
	// config may be changed before restart.
	config   evm.Config
	observer *evm.Observer
}

// openTill starts a rail that is read at so many endpoints of one chain.
func openTill(t *testing.T, endpoints int) *till {
	t.Helper()
	s := &till{T: t, chain: chain.Start(t), clock: new(clock)}
	s.chain.Pause()
	_, err := rand.Read(s.payee[:])
	require.NoError(t, err)
	s.config = evm.Config{OfferID: offerID, Confirm: evm.Latest, Now: s.clock.Now}
	for range endpoints {
		p := startProxy(t, s.chain.URL)
		s.rpc = append(s.rpc, p)
		s.config.Endpoints = append(s.config.Endpoints, p.URL)
	}
	network, err := offer.LookupNetwork("base-sepolia")
	require.NoError(t, err)
	s.config.USDC, err = offer.NewUSDC("usdc", network, s.payee.Hex(), 4200)
	require.NoError(t, err)
	s.ledger = ledger.NewSQLite(payoffertest.LedgerFile(t), s.clock.Now)
	require.NoError(t, s.ledger.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, s.ledger.Close()) })
	s.config.Ledger = s.ledger
	require.NoError(t, s.ledger.Register(t.Context(), ledger.Account{Offer: offerID, ID: s.config.USDC.Account(), Rail: "usdc"}))
	s.restart()
	return s
}

// restart makes a new observer, which knows what the ledger knows.
func (s *till) restart() {
	s.Helper()
	observer := lab.Must(evm.New(s.config))(s)
	s.observer = observer
}

// round is one poll, after which no receipt may be confirmed without evidence on the chain.
func (s *till) round() error {
	s.Helper()
	s.clock.passed.Add(int64(poll))
	err := s.observer.Poll(s.Context())
	s.requireEvidence()
	return err
}

// requireCode requires a round that ends with a problem.
func (s *till) requireCode(code string) {
	s.Helper()
	err := s.round()
	require.Error(s, err)
	require.True(s, strings.HasPrefix(err.Error(), code+" ("), "%v is not %s", err, code)
	require.Equal(s, code, s.observer.Health().LastError)
	for _, p := range s.rpc {
		require.NotContains(s, err.Error(), p.URL)
	}
}

// pay sends the price to the payee in one new block.
func (s *till) pay() common.Hash {
	s.Helper()
	hash := s.send()
	s.chain.Mine(s, 1)
	require.True(s, s.chain.Succeeded(s, hash))
	return hash
}

// send broadcasts a transaction of the facilitator that moves the price to the payee.
func (s *till) send() common.Hash {
	s.Helper()
	hash := lab.Must(s.chain.Send(s.chain.USDC, s.authorized(price)))(s)
	return hash
}

// authorized is a call that moves an amount from the Wallet to the payee at any time.
func (s *till) authorized(value int64) []byte {
	s.Helper()
	a := chain.NewAuthorization(s, chain.Wallet, s.payee, value)
	a.ValidBefore = math.MaxInt64
	return a.Call(s, []byte("whatever the wallet takes"))
}

func (s *till) receipts() []ledger.Receipt {
	s.Helper()
	rows := lab.Must(s.ledger.Receipts(s.Context(), offerID, 0, 10_000))(s)
	return rows
}

// receipt is the only one of a transaction.
func (s *till) receipt(transaction common.Hash) ledger.Receipt {
	s.Helper()
	var found []ledger.Receipt
	for _, row := range s.receipts() {
		if row.Transaction == transaction.Hex() {
			found = append(found, row)
		}
	}
	require.Len(s, found, 1)
	return found[0]
}

// onChain are the transfers to the payee that the chain itself shows now, with their amounts, by external id.
func (s *till) onChain() map[string]int64 {
	s.Helper()
	transfers := make(map[string]int64)
	for _, t := range s.chain.TransfersTo(s, s.payee) {
		transfers[fmt.Sprintf("eip155:%d:%s:%d", s.chain.ID, t.Tx.Hex(), t.Ordinal)] = t.Value.Int64()
	}
	return transfers
}

// confirmed are the amounts of the receipts that count, by external id.
func (s *till) confirmed() map[string]int64 {
	s.Helper()
	counted := make(map[string]int64)
	for _, row := range s.receipts() {
		if row.Status == ledger.StatusConfirmed {
			counted[row.ExternalID] = row.Amount
		}
	}
	return counted
}

// requireEvidence requires that every receipt that counts is on the chain.
func (s *till) requireEvidence() {
	s.Helper()
	transfers := s.onChain()
	for id, amount := range s.confirmed() {
		require.Equal(s, transfers[id], amount, "%s is confirmed, and not on the chain so", id)
	}
}

// requireRight requires that exactly the transfers on the chain are confirmed, each once, and that the sums are theirs.
func (s *till) requireRight() {
	s.Helper()
	transfers := s.onChain()
	require.Equal(s, transfers, s.confirmed())
	var count, amount int64
	for _, value := range transfers {
		count, amount = count+1, amount+value
	}
	totals := lab.Must(s.ledger.Totals(s.Context(), offerID))(s)
	for _, total := range totals {
		if total.Status == ledger.StatusConfirmed {
			count, amount = count-total.Count, amount-total.Amount
		}
	}
	require.Zero(s, count, "the number in the sums")
	require.Zero(s, amount, "the money in the sums")
}

// settle polls twice, after which all must be right.
func (s *till) settle() {
	s.Helper()
	_ = s.round()
	_ = s.round()
	s.requireRight()
}

// requireObserved requires that the rail claims to know all.
func (s *till) requireObserved() {
	s.Helper()
	health := s.observer.Health()
	require.False(s, health.Blind)
	require.False(s, health.Partial)
	require.Empty(s, health.LastError)
	require.Equal(s, fmt.Sprintf("block %d", s.chain.Head()), health.ObservedThrough)
}

// cursor is the position in the ledger, 0 for none.
func (s *till) cursor() (position uint64) {
	s.Helper()
	cursor, _, err := s.ledger.Cursor(s.Context(), offerID, s.config.USDC.Account())
	require.NoError(s, err)
	_, _ = fmt.Sscan(cursor.Position, &position)
	return position
}
