package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// together has changes wait for the group commit, and returns the error of each and the number of their transactions.
func together(t *testing.T, l *Ledger, changes ...change) (became []error, begun int) {
	t.Helper()
	busy, free := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		assert.NoError(t, l.write(t.Context(), func(context.Context, *sql.Tx) error {
			close(busy)
			<-free
			return nil
		}))
	})
	<-busy
	became = make([]error, len(changes))
	var transactions []*sql.Tx // by the one writer
	for n, do := range changes {
		group.Go(func() {
			became[n] = l.write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
				if !slices.Contains(transactions, tx) {
					transactions = append(transactions, tx)
				}
				return do(ctx, tx)
			})
		})
		for len(l.db.writer.waiting) <= n { // so that they come in this order
			runtime.Gosched()
		}
	}
	close(free)
	group.Wait()
	return became, len(transactions)
}

func registers(l *Ledger, id string) change {
	return func(ctx context.Context, tx *sql.Tx) error {
		return accountTable.upsert(ctx, tx, `offer, account`, Account{Offer: testOffer, ID: id, Rail: "btc"})
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

func TestGroupCommitBatchesWaitingChanges(t *testing.T) {
	t.Parallel()
	l, _ := sqliteTests.ledger(t)
	var changes []change
	for n := range groupSize {
		changes = append(changes, registers(l, fmt.Sprint("late ", n)))
	}
	became, begun := together(t, l, changes...)
	require.NoError(t, errors.Join(became...))
	require.Equal(t, 1, begun)
	require.Subset(t, accountIDs(t, l), []string{"late 0", "late 31", "late 63"})
}

func TestGroupCommitFailedChangeSparesOthers(t *testing.T) {
	t.Parallel()
	refusal := errors.New("refused")
	for name, fails := range map[string]struct {
		how  func(l *Ledger) change
		says string
	}{
		"refused after a row": {func(l *Ledger) change {
			return func(ctx context.Context, tx *sql.Tx) error {
				return errors.Join(registers(l, "half")(ctx, tx), refusal)
			}
		}, "refused"},
		"refused before any": {func(*Ledger) change {
			return func(context.Context, *sql.Tx) error { return refusal }
		}, "refused"},
		"a statement that cannot be read": {func(*Ledger) change {
			return func(ctx context.Context, tx *sql.Tx) error {
				_, err := execute(ctx, tx, "speaking", `SPEAK`)
				return err
			}
		}, "speaking"},
		"a panic": {func(l *Ledger) change {
			return func(ctx context.Context, tx *sql.Tx) error {
				_ = registers(l, "half")(ctx, tx)
				panic("hidden fault")
			}
		}, "panicked: hidden fault"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, _ := sqliteTests.ledger(t)
			became, begun := together(t, l, registers(l, "first"), fails.how(l), registers(l, "second"))
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

// TestGroupCommitFullDisk fills the disk.
func TestGroupCommitFullDisk(t *testing.T) {
	t.Parallel()
	l, _ := sqliteTests.ledger(t)
	_, err := l.db.write.Exec("PRAGMA max_page_count = 1") // the lowest: what is in use
	require.NoError(t, err)
	became, begun := together(t, l, registers(l, "first"), func(ctx context.Context, tx *sql.Tx) error {
		return accountTable.upsert(ctx, tx, `offer, account`, Account{Offer: testOffer, ID: "large", Rail: strings.Repeat("x", 1<<20)})
	}, registers(l, "second"))
	require.NoError(t, became[0])
	require.ErrorContains(t, became[1], "full")
	require.NoError(t, became[2])
	require.Equal(t, 4, begun, "together, and each alone")
	require.Subset(t, accountIDs(t, l), []string{"first", "second"})
	require.NotContains(t, accountIDs(t, l), "large")
}

func TestGroupCommitCanceledCallerSparesOthers(t *testing.T) {
	t.Parallel()
	l, _ := sqliteTests.ledger(t)
	busy, free := make(chan struct{}), make(chan struct{})
	made, left := make(chan error, 1), make(chan error, 1)
	making, leave := context.WithCancel(t.Context())
	go func() {
		made <- l.write(making, func(ctx context.Context, tx *sql.Tx) error {
			close(busy)
			<-free
			return registers(l, "made")(ctx, tx)
		})
	}()
	<-busy
	waiting, give := context.WithCancel(t.Context())
	go func() { left <- l.write(waiting, registers(l, "left")) }()
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
