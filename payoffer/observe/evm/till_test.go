package evm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	offerID = "sponsor"
	// every is the time between two rounds of a test.
	every = 4 * time.Second
)

// till is a USDC rail at work: an observer, its ledger, and endpoints of a chain.
type till struct {
	*testing.T
	// chain is the truth. An endpoint shows it unless it was given another branch.
	chain *branch
	nodes nodes
	db    *fakeLedger
	log   bytes.Buffer
	// now is what has passed since the chain's first head.
	now time.Duration
	// config may be changed before restart.
	config Config
	*Observer
}

// open starts a rail that is read at so many endpoints. Nothing was read yet.
func open(t *testing.T, endpoints int) *till {
	t.Helper()
	s := &till{T: t, chain: newBranch(t, 400)}
	for i := range endpoints {
		n := &node{host: []string{"one.example", "two.example", "three.example"}[i], branch: s.chain, rules: map[string]rule{}, calls: map[string]int{}}
		s.nodes = append(s.nodes, n)
		s.config.Endpoints = append(s.config.Endpoints, n.url())
	}
	network, err := offer.LookupNetwork("base-sepolia")
	require.NoError(t, err)
	s.config.USDC, err = offer.NewUSDC("usdc", network, payee, 42_00)
	require.NoError(t, err)
	s.config.OfferID, s.config.Confirm = offerID, Latest
	s.config.Transport, s.config.Now, s.config.Logger = s.nodes, s.clock, slog.New(slog.NewTextHandler(&s.log, nil))
	s.lose()
	return s
}

// lose begins anew with an empty ledger.
func (s *till) lose() {
	s.Helper()
	db := &fakeLedger{Ledger: ledger.NewSQLite(payoffertest.LedgerFile(s), s.clock)}
	require.NoError(s, db.Open(s.Context()))
	s.Cleanup(func() { require.NoError(s, db.Close()) })
	s.db, s.config.Ledger = db, db
	s.register(0)
	s.restart()
}

// openRead is open after a round, so that the origin is the chain's head.
func openRead(t *testing.T, endpoints int) *till {
	t.Helper()
	s := open(t, endpoints)
	s.round()
	s.requireObserved()
	return s
}

// openBeside is open, and openReadBeside openRead, for a test that runs beside others.
func openBeside(t *testing.T, endpoints int) *till {
	t.Helper()
	t.Parallel()
	return open(t, endpoints)
}

func openReadBeside(t *testing.T, endpoints int) *till {
	t.Helper()
	t.Parallel()
	return openRead(t, endpoints)
}

// openAt is open for payments that count at a level of finality.
func openAt(t *testing.T, endpoints int, level Level) *till {
	t.Helper()
	s := open(t, endpoints)
	s.config.Confirm = level
	s.restart()
	return s
}

// clock goes with the chain, or ahead of it.
func (s *till) clock() time.Time {
	return time.Unix(genesis+399*blockTime, 0).Add(s.now)
}

// restart makes a new observer, which knows what the ledger knows.
func (s *till) restart() {
	s.Helper()
	observer, err := New(s.config)
	require.NoError(s, err)
	s.Observer = observer
}

// look is one round. Nothing may be confirmed that is not on the chain.
func (s *till) look() error {
	s.Helper()
	s.now += every
	err := s.Poll(s.Context())
	transfers := s.chain.transfers()
	for id, amount := range s.confirmed() {
		require.Equal(s, transfers[id], amount, "%s is confirmed, and not on the chain so", id)
	}
	return err
}

// round is one round that goes well.
func (s *till) round() {
	s.Helper()
	require.NoError(s, s.look())
}

// requireError requires a round with a problem, by whose code the rail's health names it.
func (s *till) requireError(problem string, blind bool) {
	s.Helper()
	require.EqualError(s, s.look(), problem)
	s.requireProblem(strings.Fields(problem)[0], blind)
}

// requireProblem requires that the rail does not claim to know all.
func (s *till) requireProblem(code string, blind bool) {
	s.Helper()
	health := s.Health()
	require.Equal(s, code, health.LastError)
	require.Equal(s, blind, health.Blind)
	require.True(s, health.Partial)
}

// elapse lets simulated time pass beside a loop. The nodes' locks, which count
// takes, tell the race detector what that time does not: that what the test did
// comes before it.
func (s *till) elapse(d time.Duration) {
	for _, n := range s.nodes {
		n.count("")
	}
	time.Sleep(d)
	synctest.Wait()
}

// requireObserved requires that the rail claims to know all up to the chain's head.
func (s *till) requireObserved() {
	s.Helper()
	require.Equal(s, observe.Health{
		Rail: "usdc", Source: "chain", ObservedThrough: fmt.Sprintf("block %d", s.chain.head()),
		At: min(s.chain.blocks[s.chain.head()].time, s.clock().Unix()),
	}, s.Health())
}

// rows are all receipts, by external id.
func (s *till) rows() map[string]ledger.Receipt {
	s.Helper()
	list, err := s.db.Receipts(s.Context(), offerID, 0, 10_000)
	require.NoError(s, err)
	rows := make(map[string]ledger.Receipt)
	for _, row := range list {
		rows[row.ExternalID] = row
	}
	require.Len(s, rows, len(list))
	return rows
}

// row is the only receipt of a transaction.
func (s *till) row(tx *transaction) ledger.Receipt {
	s.Helper()
	var found []ledger.Receipt
	for _, row := range s.rows() {
		if row.Transaction == tx.hash.Hex() {
			found = append(found, row)
		}
	}
	require.Len(s, found, 1)
	return found[0]
}

// requireStatus requires what became of a payment.
func (s *till) requireStatus(status ledger.Status, tx *transaction) {
	s.Helper()
	require.Equal(s, status, s.row(tx).Status)
}

// confirmed are the amounts of the receipts that count, by external id.
func (s *till) confirmed() map[string]int64 {
	s.Helper()
	counted := make(map[string]int64)
	for id, row := range s.rows() {
		if row.Status == ledger.StatusConfirmed {
			counted[id] = row.Amount
		}
	}
	return counted
}

// requireRight requires that exactly the transfers on the chain are confirmed, each once, and that the sums are theirs.
func (s *till) requireRight() {
	s.Helper()
	transfers := s.chain.transfers()
	require.Equal(s, transfers, s.confirmed())
	var count, amount int64
	for _, value := range transfers {
		count, amount = count+1, amount+value
	}
	totals, err := s.db.Totals(s.Context(), offerID)
	require.NoError(s, err)
	for _, total := range totals {
		if total.Status == ledger.StatusConfirmed {
			count, amount = count-total.Count, amount-total.Amount
		}
	}
	require.Zero(s, count, "the number in the sums")
	require.Zero(s, amount, "the money in the sums")
}

// paid is a payment, and a round after it.
func (s *till) paid() *transaction {
	s.Helper()
	payment := s.chain.pay(price)
	s.round()
	return payment
}

// requireRightAfterRound is a round after which requireRight holds.
func (s *till) requireRightAfterRound() {
	s.Helper()
	s.round()
	s.requireRight()
}

// settle is two rounds, after which all must be right and known to be.
func (s *till) settle() {
	s.Helper()
	_ = s.look()
	s.round()
	s.requireRight()
	s.requireObserved()
}

// cursor is the position in the ledger, 0 for none. What stands there must be the block that the chain has there.
func (s *till) cursor() (position uint64) {
	s.Helper()
	cursor, found, err := s.db.Ledger.Cursor(s.Context(), offerID, s.config.USDC.Account())
	require.NoError(s, err)
	if !found {
		return 0
	}
	_, err = fmt.Sscan(cursor.Position, &position)
	require.NoError(s, err)
	require.Equal(s, s.chain.blocks[position].hash.Hex(), cursor.Anchor)
	return position
}

// ledger is a ledger that fails as scripted.
type fakeLedger struct {
	*ledger.Ledger
	// broken is the method that fails; refused are the external ids that can be no row.
	broken  string
	refused map[string]bool
	// recorded counts the rows that were written, and asked the calls.
	recorded int
	asked    atomic.Int64

	mu sync.Mutex // guards broken and recorded beside loops
}

var errBroken = errors.New("broken by the test, at /secret-path")

func (b *fakeLedger) fails(method string) error {
	b.asked.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken == method {
		return errBroken
	}
	return nil
}

// unless calls the ledger unless the method is broken.
func unless[T any](b *fakeLedger, method string, call func() (T, error)) (value T, err error) {
	if err := b.fails(method); err != nil {
		return value, err
	}
	return call()
}

func (b *fakeLedger) Unfinal(ctx context.Context, offer, account string, limit int) ([]ledger.Receipt, error) {
	return unless(b, "Unfinal", func() ([]ledger.Receipt, error) { return b.Ledger.Unfinal(ctx, offer, account, limit) })
}

func (b *fakeLedger) Cursor(ctx context.Context, offer, account string) (c ledger.Cursor, found bool, err error) {
	if err = b.fails("Cursor"); err == nil {
		c, found, err = b.Ledger.Cursor(ctx, offer, account)
	}
	return c, found, err
}

func (b *fakeLedger) LowerOrigin(ctx context.Context, offer, account, origin string) (bool, error) {
	return unless(b, "LowerOrigin", func() (bool, error) { return b.Ledger.LowerOrigin(ctx, offer, account, origin) })
}

func (b *fakeLedger) Account(ctx context.Context, offer, account string) (ledger.Account, error) {
	return unless(b, "Account", func() (ledger.Account, error) { return b.Ledger.Account(ctx, offer, account) })
}

func (b *fakeLedger) Record(ctx context.Context, cursor *ledger.Cursor, observations ...ledger.Observation) ([]ledger.Receipt, error) {
	if err := b.fails("Record"); err != nil {
		return nil, err
	}
	for _, s := range observations {
		if b.refused[s.ExternalID] {
			return nil, ledger.ErrObservation
		}
	}
	b.mu.Lock()
	b.recorded += len(observations)
	b.mu.Unlock()
	return b.Ledger.Record(ctx, cursor, observations...)
}

var _ Ledger = (*fakeLedger)(nil)
