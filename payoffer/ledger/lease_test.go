package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLeasesOfAnEndedProcess: a SQLite file has one process, a PostgreSQL
// database may have others.
func TestLeasesOfAnEndedProcess(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		where := d.create(t)
		l, _ := d.ledgerAt(t, where)
		intent := testIntent("0xaa", "0x01")
		require.NoError(t, l.InsertIntent(t.Context(), intent))
		before := mustIntent(t, l, intent.IntentKey)
		require.NoError(t, l.Open(t.Context()), "an open ledger is not opened again")
		require.Equal(t, before, mustIntent(t, l, intent.IntentKey))
		require.NoError(t, l.Close())

		l, _ = d.ledgerAt(t, where)
		after := mustIntent(t, l, intent.IntentKey)
		err := l.UpdateOpenIntent(t.Context(), intent.IntentKey, "next process", 2_000, "", "")
		if d.name == sqliteTests.name {
			require.NoError(t, err)
			before.LeaseUntil = 0
		} else {
			require.ErrorIs(t, err, errLeaseHeld)
		}
		require.Equal(t, before, after)
	})
}

// TestAnIntentOfAnEndedProcessIsLookedAtSoon: the lease that its last look took
// says nothing of the next one.
func TestAnIntentOfAnEndedProcessIsLookedAtSoon(t *testing.T) {
	where := sqliteTests.create(t)
	l, clock := sqliteTests.ledgerAt(t, where)
	intent := testIntent("0xaa", "0x01")
	require.NoError(t, l.InsertIntent(t.Context(), intent))
	clock.unix += 60
	require.NoError(t, l.UpdateOpenIntent(t.Context(), intent.IntentKey, "ended", clock.unix+110, "", ""))
	require.NoError(t, l.Close())

	l, next := sqliteTests.ledgerAt(t, where)
	next.unix = clock.unix + 7
	due := must(l.DueOpen(t.Context(), testOffer, testAccount, 0, 10))(t)
	require.Len(t, due, 1)
}

func TestMovedIntentKeepsEverythingButItsFacilitator(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		intent := testIntent("0xaa", "0x01")
		intent.PaymentID = "pid"
		require.NoError(t, l.InsertIntent(t.Context(), intent))
		want := mustIntent(t, l, intent.IntentKey)
		clock.set(1_001)
		require.NoError(t, l.MoveIntent(t.Context(), intent.IntentKey, intent.Owner, "second"))
		want.Facilitator, want.UpdatedAt = "second", 1_001
		require.Equal(t, want, mustIntent(t, l, intent.IntentKey))
		requireConsistent(t, l)
	})
}

func TestSinksOfAnEndedProcess(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		where := d.create(t)
		l, _ := d.ledgerAt(t, where)
		_, held := find(l.LeaseSubscriber(t.Context(), testOffer, "hook", "ended", 1_000, 1_500))(t)
		require.True(t, held)
		require.NoError(t, l.AdvanceSubscriber(t.Context(), testOffer, "hook", "ended", 7))
		require.NoError(t, l.Close())

		l, _ = d.ledgerAt(t, where)
		after, held := find(l.LeaseSubscriber(t.Context(), testOffer, "hook", "next", 1_000, 1_500))(t)
		require.Equal(t, d.name == sqliteTests.name, held)
		if held {
			require.EqualValues(t, 7, after)
		}
	})
}
