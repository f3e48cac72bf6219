package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// atOnce calls f with each instance at the same time, and returns the number of calls with each error.
func atOnce(all []*Ledger, f func(n int, l *Ledger) error) map[error]int {
	var mu sync.Mutex
	var group sync.WaitGroup
	counts := make(map[error]int)
	for n, l := range all {
		group.Go(func() {
			err := f(n, l)
			mu.Lock()
			defer mu.Unlock()
			counts[err]++
		})
	}
	group.Wait()
	return counts
}

func TestPostgresAccountHasOneOffer(t *testing.T) {
	t.Parallel()
	all, refused := instances(t, 4), errors.New("another offer has it")
	for round := range cases.Of(10, 30, 300) {
		require.Equal(t, map[error]int{nil: 1, refused: 3}, atOnce(all, func(n int, l *Ledger) error {
			err := l.Register(t.Context(), Account{Offer: fmt.Sprint("offer ", n), ID: fmt.Sprint("account ", round), Rail: "card"})
			if err != nil && strings.Contains(err.Error(), "belongs to offer") {
				return refused
			}
			return err
		}))
	}
}

// The open intents of one payer are of different offers, so no index compares them.
func TestPostgresPaymentIDHasOneHolder(t *testing.T) {
	t.Parallel()
	all := instances(t, 4)
	for n := range all {
		require.NoError(t, all[0].Register(t.Context(), Account{Offer: fmt.Sprint(n), ID: fmt.Sprint("account ", n), Rail: "usdc"}))
	}
	for payer := range cases.Of(10, 30, 300) {
		require.Equal(t, map[error]int{nil: 1, ErrPaymentID: 3}, atOnce(all, func(n int, l *Ledger) error {
			i := testIntent(fmt.Sprintf("0x%d", payer), fmt.Sprintf("0x%d", n))
			i.Offer, i.Account, i.PaymentID = fmt.Sprint(n), fmt.Sprint("account ", n), "pid"
			return l.InsertIntent(t.Context(), i)
		}))
	}
}

func TestPostgresTransactionIsClaimedOnce(t *testing.T) {
	t.Parallel()
	all := instances(t, 4)
	for hash := range cases.Of(10, 30, 300) {
		intents := make([]Intent, len(all))
		for n := range intents {
			intents[n] = testIntent(fmt.Sprintf("0x%d", n), fmt.Sprintf("0x%d", hash))
			intents[n].PaymentID = fmt.Sprintf("%d-%d", hash, n) // of its own: the charge before does not conflict
			require.NoError(t, all[0].InsertIntent(t.Context(), intents[n]))
		}
		require.Equal(t, map[error]int{nil: 1, ErrTransaction: 3}, atOnce(all, func(n int, l *Ledger) error {
			return l.SettleIntent(t.Context(), intents[n].IntentKey, fmt.Sprintf("0x%d", hash), nil, EvidenceFacilitator)
		}))
		for _, i := range intents {
			_ = all[0].RefuseIntent(t.Context(), i.IntentKey, "expired") // those that are open
		}
	}
	requireConsistent(t, all[0])
}

func TestPostgresChangesOfIntentAreNotLost(t *testing.T) {
	t.Parallel()
	all := instances(t, 4)
	intent := testIntent("0xaa", "0x01")
	require.NoError(t, all[0].InsertIntent(t.Context(), intent))
	const each = 20
	require.Equal(t, map[error]int{nil: 4}, atOnce(all, func(_ int, l *Ledger) error {
		for range each {
			if _, err := l.change(t.Context(), intent.IntentKey, func(i *Intent) error {
				i.RejectedUntil++
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	}))
	require.EqualValues(t, 4*each, mustIntent(t, all[0], intent.IntentKey).RejectedUntil)
}

// TestPostgresLocksHaveOneOrder lets two instances meet in opposite orders of offers, payers and intents.
func TestPostgresLocksHaveOneOrder(t *testing.T) {
	t.Parallel()
	dsn := postgresTests.create(t)
	all := instancesAt(t, dsn, 2)
	offers := []string{testOffer, "second", "third"}
	accounts := []string{testAccount, "account 2", "account 3"}
	for n := range offers[1:] {
		require.NoError(t, all[0].Register(t.Context(), Account{Offer: offers[n+1], ID: accounts[n+1], Rail: "usdc", Testnet: true}))
	}
	for round := range cases.Of(20, 40, 400) {
		var observed []Observation
		var keys []IntentKey
		for n := range offers {
			i := testIntent(fmt.Sprintf("0x%d-%d", round, n), "0x01")
			i.Offer, i.Account = offers[n], accounts[n]
			require.NoError(t, all[0].InsertIntent(t.Context(), i))
			keys = append(keys, i.IntentKey)
			s := chainObservation(i.From, StatusConfirmed)
			s.Offer, s.Account, s.Intent = i.Offer, i.Account, &i.IntentKey
			observed = append(observed, s)
		}
		require.Equal(t, map[error]int{nil: 4}, atOnce(append(all, all...), func(n int, l *Ledger) error {
			mine, claimed := slices.Clone(observed), slices.Clone(keys)
			if n%2 == 1 {
				slices.Reverse(mine)
				slices.Reverse(claimed)
			}
			if n < 2 {
				return errorOf(l.Record(t.Context(), &Cursor{Offer: testOffer, Account: testAccount, Position: fmt.Sprint(round)}, mine...))
			}
			for _, key := range claimed {
				if err := l.SettleIntent(t.Context(), key, key.From, []byte(`{}`), EvidenceFacilitator); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	requireConsistent(t, all[0])
	for _, l := range all {
		require.NoError(t, l.Close()) // the server counts what its sessions report
	}
	last, _ := postgresTests.ledgerAt(t, dsn)
	require.Eventually(t, func() bool {
		var sessions int
		return last.db.read.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()`).Scan(&sessions) == nil && sessions <= 2
	}, patience, 10*time.Millisecond)
	var deadlocks int
	require.NoError(t, last.db.read.QueryRow(`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks))
	require.Zero(t, deadlocks)
}

// TestPostgresRecordExcludesOnlyItsOffer holds a record before its commit. Intents of its offer, and receipts of another
// one, do not wait for it. A later record of the offer waits, so that its transition has the later number.
func TestPostgresRecordExcludesOnlyItsOffer(t *testing.T) {
	t.Parallel()
	all := instances(t, 2)
	require.NoError(t, all[0].Register(t.Context(), Account{Offer: "second", ID: "plink_2", Rail: "card"}))
	held, free := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(free) })
	defer release()
	var group sync.WaitGroup
	group.Go(func() {
		assert.NoError(t, all[0].writeSums(t.Context(), []lock{{offerLock, testOffer}}, func(ctx context.Context, r *recorder) error {
			if _, err := r.record(ctx, chainObservation("0xheld", StatusConfirmed)); err != nil {
				return err
			}
			err := addToTotals(ctx, r.tx, r.delta)
			clear(r.delta)
			close(held)
			<-free
			return err
		}))
	})
	<-held
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n, l := range all {
		other := testIntent(fmt.Sprintf("0x%d", n), "0x01")
		require.NoError(t, l.InsertIntent(ctx, other))
		require.NoError(t, l.SettleIntent(ctx, other.IntentKey, fmt.Sprintf("0x%d", n), []byte(`{}`), EvidenceFacilitator))
		foreign := cardObservation(fmt.Sprint("pi_", n), StatusConfirmed)
		foreign.Offer, foreign.Account = "second", "plink_2"
		must(l.Record(ctx, nil, foreign))(t)
	}
	group.Go(func() {
		_, err := all[1].Record(ctx, nil, chainObservation("0xlater", StatusConfirmed))
		assert.NoError(t, err)
	})
	requireWaiting(t, all[0])
	require.Empty(t, must(all[1].Transitions(ctx, testOffer, 0, 10))(t))
	release()
	group.Wait()
	require.Equal(t, []string{
		chainObservation("0xheld", StatusConfirmed).ExternalID + " 1 >confirmed",
		chainObservation("0xlater", StatusConfirmed).ExternalID + " 1 >confirmed",
	}, statuses(t, all[0]))
	requireConsistent(t, all[0])
}

// requireWaiting waits until a transaction waits for a named lock.
func requireWaiting(t *testing.T, l *Ledger) {
	t.Helper()
	require.Eventually(t, func() bool {
		var waits bool
		err := l.db.read.QueryRow(`SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits)
		return err == nil && waits
	}, patience, time.Millisecond)
}

// TestPostgresLocksAreSorted holds a lock that a transaction wants with another one. In whatever order it names them, it
// waits with the same ones of them.
func TestPostgresLocksAreSorted(t *testing.T) {
	t.Parallel()
	all := instances(t, 3)
	locked := func(l *Ledger, then func(), locks ...lock) error {
		return l.write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			err := l.dialect.lock(ctx, tx, locks...)
			then()
			return err
		})
	}
	// takes reports whether a transaction that waits for held has taken other before.
	takes := func(held, other lock, named ...lock) (taken bool) {
		holds, free := make(chan struct{}), make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() { assert.NoError(t, locked(all[0], func() { close(holds); <-free }, held)) })
		<-holds
		group.Go(func() { assert.NoError(t, locked(all[1], func() {}, named...)) })
		requireWaiting(t, all[0])
		assert.NoError(t, all[2].db.read.QueryRow(`SELECT count(*) > 2 FROM pg_locks WHERE locktype = 'advisory' AND classid >= $1
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, int64(payerLock)).Scan(&taken)) // held, waiting, other
		close(free)
		group.Wait()
		return taken
	}
	payer, offer, second := lock{payerLock, "a"}, lock{offerLock, "a"}, lock{offerLock, "b"}
	require.False(t, takes(payer, offer, payer, offer))
	require.False(t, takes(payer, offer, offer, payer), "payers come first")
	require.True(t, takes(offer, payer, offer, payer))
	require.Equal(t, takes(offer, second, offer, second), takes(offer, second, second, offer), "one order of names")
}
