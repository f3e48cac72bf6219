package ledger

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// counting is a dialect that counts the transactions that begin.
type counting struct {
	dialect
	begun *int
}

func (c counting) session(ctx context.Context, db *database) (session, error) {
	*c.begun++ // by the one writer
	return c.dialect.session(ctx, db)
}

// together has the changes wait for who gathers them at once, and returns what became of each and in how many transactions.
func together(t *testing.T, l *Ledger, changes ...func(ctx context.Context, tx *transaction) error) (became []error, begun int) {
	t.Helper()
	l.dialect = counting{l.dialect, &begun}
	busy, free := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		assert.NoError(t, l.transactGrouped(t.Context(), func(context.Context, *transaction) error {
			close(busy)
			<-free
			return nil
		}))
	})
	<-busy
	became = make([]error, len(changes))
	for n, do := range changes {
		group.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					became[n] = fmt.Errorf("panicked: %v", v)
				}
			}()
			became[n] = l.transactGrouped(t.Context(), do)
		})
		for len(l.db.groupWriter.waiting) <= n { // so that they come in this order
			runtime.Gosched()
		}
	}
	close(free)
	group.Wait()
	l.dialect = l.dialect.(counting).dialect
	return became, begun - 1
}

func registers(id string) func(ctx context.Context, tx *transaction) error {
	return func(ctx context.Context, tx *transaction) error {
		return storeAccounts(ctx, tx, map[string]Account{id: {Offer: testOffer, ID: id, Rail: "btc"}})
	}
}

func accountIDs(t *testing.T, l *Ledger) (ids []string) {
	t.Helper()
	all := must(l.Accounts(t.Context(), testOffer))(t)
	for _, a := range all {
		ids = append(ids, a.ID)
	}
	return ids
}

func TestChangesThatWaitTogetherAreCommittedTogether(t *testing.T) {
	t.Parallel()
	l, _ := sqliteTests.ledger(t)
	var changes []func(context.Context, *transaction) error
	for n := range groupSize {
		changes = append(changes, registers(fmt.Sprint("late ", n)))
	}
	became, begun := together(t, l, changes...)
	require.NoError(t, errors.Join(became...))
	require.Equal(t, 1, begun)
	require.Subset(t, accountIDs(t, l), []string{"late 0", "late 31", "late 63"})
}

// TestChargesThatAreToldTogetherAreNotedTogether on a database with other writers too.
func TestChargesThatAreToldTogetherAreNotedTogether(t *testing.T) {
	t.Parallel()
	l := instances(t, 1)[0]
	require.NoError(t, l.db.sequencer.Close()) // its transactions are not counted
	l.db.parts = l.db.parts[:len(l.db.parts)-1]
	var changes []func(context.Context, *transaction) error
	for n := range groupSize {
		i := testIntent(fmt.Sprintf("0x%d", n), "0x01")
		require.NoError(t, l.InsertIntent(t.Context(), i))
		require.NoError(t, l.SettleIntent(t.Context(), i.IntentKey, fmt.Sprintf("0x%d", n), []byte(`{}`), EvidenceFacilitator))
		changes = append(changes, l.acknowledgeIntent(i.IntentKey, true))
	}
	became, begun := together(t, l, changes...)
	require.NoError(t, errors.Join(became...))
	require.Equal(t, 1, begun)
	for n := range groupSize {
		require.NotZero(t, mustIntent(t, l, testIntent(fmt.Sprintf("0x%d", n), "0x01").IntentKey).AcknowledgedAt)
	}
}

func TestAChangeThatFailsLeavesThoseOfItsGroup(t *testing.T) {
	t.Parallel()
	refusal := errors.New("refused")
	for name, fails := range map[string]struct {
		how  func(ctx context.Context, tx *transaction) error
		says string
	}{
		"refused after a row": {func(ctx context.Context, tx *transaction) error {
			return errors.Join(registers("half")(ctx, tx), refusal)
		}, "refused"},
		"refused before any": {func(context.Context, *transaction) error { return refusal }, "refused"},
		"a statement of which nobody needs the answer": {func(ctx context.Context, tx *transaction) error {
			tx.queue("storing nothing", `INSERT INTO accounts (account) VALUES ('half')`)
			return nil
		}, "storing nothing"},
		"a statement that cannot be read": {func(ctx context.Context, tx *transaction) error {
			_, err := tx.exec(ctx, "speaking", `SPEAK`)
			return err
		}, "speaking"},
		"a panic": {func(ctx context.Context, tx *transaction) error {
			_ = registers("half")(ctx, tx)
			panic("hidden fault")
		}, "panicked: hidden fault"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, _ := sqliteTests.ledger(t)
			became, begun := together(t, l, registers("first"), fails.how, registers("second"))
			require.NoError(t, became[0])
			require.ErrorContains(t, became[1], fails.says)
			require.NoError(t, became[2])
			require.Equal(t, 1, begun)
			require.Subset(t, accountIDs(t, l), []string{"first", "second"})
			require.NotContains(t, accountIDs(t, l), "half")
			require.NoError(t, l.Register(t.Context(), Account{Offer: testOffer, ID: "after", Rail: "btc"}))
		})
	}
}

// TestWhatUndoesAGroupFailsItsCauseAlone fills the disk.
func TestWhatUndoesAGroupFailsItsCauseAlone(t *testing.T) {
	t.Parallel()
	l, _ := sqliteTests.ledger(t)
	_, err := l.db.write.Exec("PRAGMA max_page_count = 1") // the lowest: what is in use
	require.NoError(t, err)
	became, begun := together(t, l, registers("first"), func(ctx context.Context, tx *transaction) error {
		return storeAccounts(ctx, tx, map[string]Account{"large": {Offer: testOffer, ID: "large", Rail: strings.Repeat("x", 1<<20)}})
	}, registers("second"))
	require.NoError(t, became[0])
	require.ErrorContains(t, became[1], "full")
	require.NoError(t, became[2])
	require.Equal(t, 4, begun, "together, and each alone")
	require.Subset(t, accountIDs(t, l), []string{"first", "second"})
	require.NotContains(t, accountIDs(t, l), "large")
}

func TestWhoLeavesUndoesNothingOfOthers(t *testing.T) {
	t.Parallel()
	l, _ := sqliteTests.ledger(t)
	busy, free := make(chan struct{}), make(chan struct{})
	made, left := make(chan error, 1), make(chan error, 1)
	making, leave := context.WithCancel(t.Context())
	go func() {
		made <- l.transact(making, func(ctx context.Context, tx *transaction) error {
			close(busy)
			<-free
			return registers("made")(ctx, tx)
		})
	}()
	<-busy
	waiting, give := context.WithCancel(t.Context())
	go func() { left <- l.transact(waiting, registers("left")) }()
	for len(l.db.writer.waiting) == 0 {
		runtime.Gosched()
	}
	give()
	require.ErrorIs(t, <-left, context.Canceled)
	leave()
	close(free)
	require.NoError(t, <-made, "whose change is being made learns that it was")
	require.NoError(t, l.Register(t.Context(), Account{Offer: testOffer, ID: "after", Rail: "btc"}))
	require.Contains(t, accountIDs(t, l), "made")
	require.NotContains(t, accountIDs(t, l), "left")
}

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
			s := chainObservation("0xheld", StatusConfirmed)
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
		must(l.Record(ctx, nil, chainObservation(fmt.Sprintf("0x%d", n), StatusConfirmed)))(t)
	}
	before := must(all[1].Transitions(ctx, testOffer, 0, 10))(t)
	require.Len(t, before, 2, "what is committed has its number")
	close(free)
	group.Wait()
	after := must(all[1].Transitions(ctx, testOffer, before[1].Seq, 10))(t)
	require.Len(t, after, 1, "what is committed later has a later one")
	requireConsistent(t, all[0])
}
