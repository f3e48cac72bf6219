package ledger

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// TestPostgresPaymentsDoNotWaitForEachOther holds one payment before its commit: what others do meanwhile, to the same sums and
// the same history, does not wait for it.
func TestPostgresPaymentsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	all := instances(t, 2)
	paid := testIntent("0xaa", "0x01")
	require.NoError(t, all[0].InsertIntent(t.Context(), paid))
	held, free := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		assert.NoError(t, all[0].transact(t.Context(), func(ctx context.Context, tx *transaction) error {
			s := chainSighting("0xheld", StatusConfirmed)
			s.Intent = &paid.IntentKey
			r := recorder{tx: tx, now: 1_000, delta: accounting.Sums{}, stored: accounting.Sums{}}
			if _, err := r.record(ctx, s); err != nil {
				return err
			}
			addToTotals(tx, r.delta)
			if err := tx.flush(ctx); err != nil {
				return err
			}
			close(held)
			<-free
			return nil
		}))
	})
	<-held
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n, l := range all {
		other := testIntent(fmt.Sprintf("0x%d", n), "0x01")
		require.NoError(t, l.InsertIntent(ctx, other))
		require.NoError(t, l.SettleIntent(ctx, other.IntentKey, fmt.Sprintf("0x%d", n), []byte(`{}`), EvidenceFacilitator))
		_, err := l.Record(ctx, nil, chainSighting(fmt.Sprintf("0x%d", n), StatusConfirmed))
		require.NoError(t, err)
	}
	before, err := all[1].Transitions(ctx, testOffer, 0, 10)
	require.NoError(t, err)
	require.Len(t, before, 2, "what is committed has its number")
	close(free)
	group.Wait()
	after, err := all[1].Transitions(ctx, testOffer, before[1].Seq, 10)
	require.NoError(t, err)
	require.Len(t, after, 1, "what is committed later has a later one")
	requireConsistent(t, all[0])
}

// ways is a connection that counts how often something is sent after an answer.
type ways struct {
	net.Conn
	count *atomic.Int64
	sent  bool
}

func (w *ways) Write(b []byte) (int, error) {
	if !w.sent {
		w.sent = true
		w.count.Add(1)
	}
	return w.Conn.Write(b)
}

func (w *ways) Read(b []byte) (int, error) {
	w.sent = false
	return w.Conn.Read(b)
}

func TestPostgresPaymentIsAFewWaysToTheServer(t *testing.T) {
	t.Parallel()
	var count atomic.Int64
	l := postgresTests.handle(t, postgresTests.create(t), time.Now)
	config := l.dialect.(*postgresDialect).config
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &ways{Conn: conn, count: &count}, err
	}
	require.NoError(t, l.Open(t.Context()))
	t.Cleanup(func() { _ = l.Close() })
	require.NoError(t, l.Register(t.Context(), Account{Offer: testOffer, ID: testAccount, Rail: "usdc"}))
	require.NoError(t, l.db.sequencer.Close()) // it counts for no payment
	l.db.parts = l.db.parts[:len(l.db.parts)-1]
	pay := func(n int) {
		i := testIntent(fmt.Sprintf("0x%d", n), "0x01")
		_, err := l.LookUp(t.Context(), i)
		require.NoError(t, err)
		require.NoError(t, l.InsertIntent(t.Context(), i))
		require.NoError(t, l.SettleIntent(t.Context(), i.IntentKey, fmt.Sprintf("0x%d", n), []byte(`{}`), EvidenceFacilitator))
	}
	tell := func(n int) {
		require.NoError(t, l.AcknowledgeIntent(t.Context(), testIntent(fmt.Sprintf("0x%d", n), "0x01").IntentKey, true))
	}
	for n := range 20 { // each connection learns the statements
		pay(n)
		tell(n)
	}
	count.Store(0)
	pay(20)
	require.EqualValues(t, 3, count.Load())
	count.Store(0)
	tell(20)
	require.EqualValues(t, 1, count.Load())
}
