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
	// every is the time between two rounds of a test: each may move cursors.
	every = cursorEvery
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
	now atomic.Int64 // a time.Duration
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
func (ti *till) lose() {
	ti.Helper()
	db := &fakeLedger{Ledger: ledger.NewSQLite(payoffertest.LedgerFile(ti), ti.clock)}
	require.NoError(ti, db.Open(ti.Context()))
	ti.Cleanup(func() { require.NoError(ti, db.Close()) })
	ti.db, ti.config.Ledger = db, db
	ti.register(0)
	ti.restart()
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
func (ti *till) clock() time.Time {
	return time.Unix(genesis+399*blockTime, 0).Add(time.Duration(ti.now.Load()))
}

// restart makes a new observer, which knows what the ledger knows.
func (ti *till) restart() {
	ti.Helper()
	observer, err := New(ti.config)
	require.NoError(ti, err)
	ti.Observer = observer
}

// look is one round. Nothing may be confirmed that is not on the chain.
func (ti *till) look() error {
	ti.Helper()
	ti.now.Add(int64(every))
	err := ti.Poll(ti.Context())
	require.False(ti, ti.db.back, "a cursor was moved back")
	transfers := ti.chain.transfers()
	for id, amount := range ti.confirmed() {
		require.Equal(ti, transfers[id], amount, "%s is confirmed, and not on the chain so", id)
	}
	return err
}

// round is one round that goes well.
func (ti *till) round() {
	ti.Helper()
	require.NoError(ti, ti.look())
}

// requireError requires a round with a problem, by whose code the rail's health names it.
func (ti *till) requireError(problem string, blind bool) {
	ti.Helper()
	require.EqualError(ti, ti.look(), problem)
	ti.requireProblem(strings.Fields(problem)[0], blind)
}

// requireProblem requires that the rail does not claim to know all.
func (ti *till) requireProblem(code string, blind bool) {
	ti.Helper()
	health := ti.Health()
	require.Equal(ti, code, health.LastError)
	require.Equal(ti, blind, health.Blind)
	require.True(ti, health.Partial)
}

// elapse lets simulated time pass beside a loop. The nodes' locks, which count
// takes, tell the race detector what that time does not: that what the test did
// comes before it.
func (ti *till) elapse(d time.Duration) {
	for _, n := range ti.nodes {
		n.count("")
	}
	time.Sleep(d)
	synctest.Wait()
}

// requireObserved requires that the rail claims to know all up to the chain's head.
func (ti *till) requireObserved() {
	ti.Helper()
	require.Equal(ti, observe.Health{
		Rail: "usdc", Source: "chain", ObservedThrough: fmt.Sprintf("block %d", ti.chain.head()),
		At: min(ti.chain.blocks[ti.chain.head()].time, ti.clock().Unix()),
	}, ti.Health())
}

// rows are all receipts, by external id.
func (ti *till) rows() map[string]ledger.Receipt {
	ti.Helper()
	list, err := ti.db.Receipts(ti.Context(), offerID, 0, 10_000)
	require.NoError(ti, err)
	rows := make(map[string]ledger.Receipt)
	for _, row := range list {
		rows[row.ExternalID] = row
	}
	require.Len(ti, rows, len(list))
	return rows
}

// row is the only receipt of a transaction.
func (ti *till) row(tx *transaction) ledger.Receipt {
	ti.Helper()
	var found []ledger.Receipt
	for _, row := range ti.rows() {
		if row.Transaction == tx.hash.Hex() {
			found = append(found, row)
		}
	}
	require.Len(ti, found, 1)
	return found[0]
}

// requireStatus requires what became of a payment.
func (ti *till) requireStatus(status ledger.Status, tx *transaction) {
	ti.Helper()
	require.Equal(ti, status, ti.row(tx).Status)
}

// confirmed are the amounts of the receipts that count, by external id.
func (ti *till) confirmed() map[string]int64 {
	ti.Helper()
	counted := make(map[string]int64)
	for id, row := range ti.rows() {
		if row.Status == ledger.StatusConfirmed {
			counted[id] = row.Amount
		}
	}
	return counted
}

// requireRight requires that exactly the transfers on the chain are confirmed, each once, and that the sums are theirs.
func (ti *till) requireRight() {
	ti.Helper()
	transfers := ti.chain.transfers()
	require.Equal(ti, transfers, ti.confirmed())
	var count, amount int64
	for _, value := range transfers {
		count, amount = count+1, amount+value
	}
	totals, err := ti.db.Totals(ti.Context(), offerID)
	require.NoError(ti, err)
	for _, total := range totals {
		if total.Status == ledger.StatusConfirmed {
			count, amount = count-total.Count, amount-total.Amount
		}
	}
	require.Zero(ti, count, "the number in the sums")
	require.Zero(ti, amount, "the money in the sums")
}

// paid is a payment, and a round after it.
func (ti *till) paid() *transaction {
	ti.Helper()
	payment := ti.chain.pay(price)
	ti.round()
	return payment
}

// requireRightAfterRound is a round after which requireRight holds.
func (ti *till) requireRightAfterRound() {
	ti.Helper()
	ti.round()
	ti.requireRight()
}

// settle is two rounds, after which all must be right and known to be.
func (ti *till) settle() {
	ti.Helper()
	_ = ti.look()
	ti.round()
	ti.requireRight()
	ti.requireObserved()
}

// cursor is the position in the ledger, 0 for none. What stands there must be the block that the chain has there.
func (ti *till) cursor() (position uint64) {
	ti.Helper()
	cursor, found, err := ti.db.Ledger.Cursor(ti.Context(), offerID, ti.config.USDC.Account())
	require.NoError(ti, err)
	if !found {
		return 0
	}
	_, err = fmt.Sscan(cursor.Position, &position)
	require.NoError(ti, err)
	require.Equal(ti, ti.chain.blocks[position].hash.Hex(), cursor.Anchor)
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
	// back says that a cursor was moved back.
	back bool

	mu sync.Mutex // guards broken and recorded beside loops
}

var errBroken = errors.New("broken by the test, at /secret-path")

func (f *fakeLedger) fails(method string) error {
	f.asked.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken == method {
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

func (f *fakeLedger) Unfinal(ctx context.Context, offer, account string, limit int) ([]ledger.Receipt, error) {
	return unless(f, "Unfinal", func() ([]ledger.Receipt, error) { return f.Ledger.Unfinal(ctx, offer, account, limit) })
}

func (f *fakeLedger) AccountStates(ctx context.Context, prefix string) ([]ledger.AccountState, error) {
	return unless(f, "AccountStates", func() ([]ledger.AccountState, error) { return f.Ledger.AccountStates(ctx, prefix) })
}

func (f *fakeLedger) LowerOrigin(ctx context.Context, offer, account, origin string) (bool, error) {
	return unless(f, "LowerOrigin", func() (bool, error) { return f.Ledger.LowerOrigin(ctx, offer, account, origin) })
}

func (f *fakeLedger) MoveCursors(ctx context.Context, cursors ...ledger.Cursor) error {
	for _, c := range cursors {
		f.compare(ctx, c)
	}
	return f.Ledger.MoveCursors(ctx, cursors...)
}

// compare notes a cursor that is behind the stored one.
func (f *fakeLedger) compare(ctx context.Context, c ledger.Cursor) {
	stored, found, err := f.Ledger.Cursor(ctx, c.Offer, c.Account)
	before, _ := observe.Position(stored.Position)
	if after, _ := observe.Position(c.Position); err != nil || found && after < before {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.back = true
	}
}

func (f *fakeLedger) Record(ctx context.Context, cursor *ledger.Cursor, observations ...ledger.Observation) ([]ledger.Receipt, error) {
	if err := f.fails("Record"); err != nil {
		return nil, err
	}
	if cursor != nil {
		f.compare(ctx, *cursor)
	}
	for _, s := range observations {
		if f.refused[s.ExternalID] {
			return nil, ledger.ErrObservation
		}
	}
	f.mu.Lock()
	f.recorded += len(observations)
	f.mu.Unlock()
	return f.Ledger.Record(ctx, cursor, observations...)
}

var _ Ledger = (*fakeLedger)(nil)
