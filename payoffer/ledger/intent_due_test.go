package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

func TestDueOpenRetriesOpenIntents(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		ctx := t.Context()
		due := func(validAfter int64, limit int) (from []string) {
			keys := must(l.DueOpen(ctx, testOffer, testAccount, validAfter, limit))(t)
			for _, key := range keys {
				from = append(from, key.From)
			}
			return from
		}
		for _, from := range []string{"0xa", "0xb", "0xc"} {
			require.NoError(t, l.InsertIntent(ctx, testIntent(from, "0x01")))
		}
		require.Empty(t, due(0, 10), "attempts work on them")
		clock.unix += 60
		require.Equal(t, []string{"0xa", "0xb", "0xc"}, due(0, 10))
		require.Equal(t, []string{"0xa"}, due(0, 1))
		unsent := testIntent("0x9", "0x01")
		unsent.Facilitator, unsent.LeaseUntil = "", 0
		require.NoError(t, l.InsertIntent(ctx, unsent))
		require.Equal(t, []string{"0xa", "0xb", "0xc", "0x9"}, due(0, 10), "an intent that was not sent comes last")
		require.NoError(t, l.RefuseIntent(ctx, unsent.IntentKey, "expired"))
		require.Empty(t, due(5_000, 10), "nothing can be sent any more")
		require.Len(t, due(4_999, 10), 3)

		key := testIntent("0xa", "0x01").IntentKey
		require.NoError(t, l.UpdateOpenIntent(ctx, key, "me", clock.unix+20, "", ""))
		require.NoError(t, l.UpdateOpenIntent(ctx, key, "me", clock.unix, "", "timeout"))
		require.NoError(t, l.UpdateOpenIntent(ctx, testIntent("0xb", "0x01").IntentKey, "me", clock.unix+5, "", ""))
		clock.unix += 4
		require.Equal(t, []string{"0xc"}, due(0, 10), "the lease of one runs")
		clock.unix += 2
		require.Equal(t, []string{"0xc", "0xb"}, due(0, 10), "who had the lease was killed, and an eighth of its age has not passed")
		clock.unix++
		require.Equal(t, []string{"0xc", "0xb", "0xa"}, due(0, 10), "the longest waiting first")
		clock.unix += 1_000_000
		require.NoError(t, l.UpdateOpenIntent(ctx, key, "me", clock.unix, "", ""))
		clock.unix += 119
		require.Len(t, due(0, 10), 2)
		clock.unix++
		require.Len(t, due(0, 10), 3)
		require.NoError(t, l.RefuseIntent(ctx, key, "expired"))
		require.Equal(t, []string{"0xc", "0xb"}, due(0, 10))
	})
}

func TestTakeDueClaimsBackoff(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		ctx := t.Context()
		take := func(account string, limit int) int {
			keys := must(l.TakeDueClaims(ctx, testOffer, account, limit))(t)
			return len(keys)
		}
		for _, from := range []string{"0xa", "0xb", "0xc", "0xd"} {
			require.NoError(t, l.InsertIntent(ctx, testIntent(from, "0x01")))
		}
		for n, evidence := range []string{EvidenceFacilitator, EvidenceFacilitator, EvidenceFacilitator, EvidenceChain} {
			key := testIntent("0x"+string(rune('a'+n)), "0x01").IntentKey
			require.NoError(t, l.SettleIntent(ctx, key, "0x"+string(rune('1'+n)), nil, evidence))
		}
		require.Zero(t, take(cardAccount, 10))
		require.Equal(t, 2, take(testAccount, 2))
		require.Equal(t, 1, take(testAccount, 10))
		require.Zero(t, take(testAccount, 10))
		clock.unix += 2
		require.Equal(t, 3, take(testAccount, 10))
		clock.unix += 1_000_000
		require.Equal(t, 3, take(testAccount, 10))
		clock.unix += 3_599
		require.Zero(t, take(testAccount, 10))
		clock.unix++
		require.Equal(t, 3, take(testAccount, 10))
	})
}

func TestClaimsListAndRetract(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		var keys []IntentKey
		for _, nonce := range []string{"0x1", "0x2", "0x3", "0x4"} {
			i := testIntent("0xpayer"+nonce, nonce)
			i.PaymentID = "order-" + nonce
			require.NoError(t, l.InsertIntent(t.Context(), i))
			keys = append(keys, i.Canonical())
		}
		require.NoError(t, l.SettleIntent(t.Context(), keys[0], "0xhash", []byte(`{}`), EvidenceFacilitator))
		require.NoError(t, l.SettleIntent(t.Context(), keys[1], "0xother", []byte(`{}`), EvidenceFacilitator))
		require.NoError(t, l.SettleIntent(t.Context(), keys[2], "0xchain", []byte(`{}`), EvidenceChain))
		nonces := func(after int64, limit int) (found []string) {
			claims := must(l.Claims(t.Context(), testOffer, after, limit))(t)
			for _, i := range claims {
				found = append(found, i.Nonce)
			}
			return found
		}
		require.Equal(t, []string{"0x1", "0x2"}, nonces(0, 10))
		require.Equal(t, []string{"0x1"}, nonces(0, 1))
		require.Equal(t, []string{"0x2"}, nonces(mustIntent(t, l, keys[0]).ID, 10))
		require.ErrorIs(t, l.SettleIntent(t.Context(), keys[3], "0xhash", nil, EvidenceFacilitator), ErrTransaction)

		for range 2 {
			require.NoError(t, l.RetractClaim(t.Context(), keys[0], accounting.ReasonOperator))
			i := mustIntent(t, l, keys[0])
			require.Equal(t, IntentRefused, i.State)
			require.Equal(t, accounting.ReasonOperator, i.Reason)
			require.Empty(t, i.Evidence)
			require.Nil(t, i.Answer, "no replay is answered with it")
			requireConsistent(t, l)
		}
		require.Equal(t, []string{"0x2"}, nonces(0, 10))
		require.NoError(t, l.SettleIntent(t.Context(), keys[3], "0xhash", nil, EvidenceFacilitator), "its transaction is free")
		again := testIntent("0xpayer0x1", "0x9")
		again.PaymentID = "order-0x1"
		require.NoError(t, l.InsertIntent(t.Context(), again), "and so are the payer and the identifier")

		require.ErrorIs(t, l.RetractClaim(t.Context(), keys[2], accounting.ReasonOperator), ErrIntentState, "what the chain shows stays")
		require.ErrorIs(t, l.RetractClaim(t.Context(), again.Canonical(), accounting.ReasonOperator), ErrIntentState, "what is open is no claim")
		require.ErrorIs(t, l.RetractClaim(t.Context(), IntentKey{}, "x"), ErrNoIntent)

		require.ErrorIs(t, l.ClaimRefused(t.Context(), keys[0], "0xhash"), ErrTransaction)
		require.NoError(t, l.ClaimRefused(t.Context(), keys[0], "0xnew"))
		i := mustIntent(t, l, keys[0])
		require.Equal(t, IntentSettled, i.State)
		require.Equal(t, "0xnew", i.Transaction)
		require.Equal(t, EvidenceFacilitator, i.Evidence)
		require.ErrorIs(t, l.ClaimRefused(t.Context(), keys[0], "0xnew"), ErrIntentState)
		requireConsistent(t, l)

		require.NoError(t, l.RetractClaim(t.Context(), keys[0], accounting.ReasonOperator))
		require.NoError(t, l.SettleIntent(t.Context(), keys[0], "0xproof", nil, EvidenceChain), "the chain's word replaces the operator's")
		requireConsistent(t, l)
	})
}

func TestWithdrawIntentDeletesIntent(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		i := testIntent("0xaa", "0x01")
		i.PaymentID = "pid"
		for range 2 {
			require.NoError(t, l.InsertIntent(t.Context(), i))
			require.NoError(t, l.WithdrawIntent(t.Context(), i.IntentKey, i.Owner))
			_, found := find(l.Intent(t.Context(), i.IntentKey))(t)
			require.False(t, found)
			totals := must(l.Totals(t.Context(), testOffer))(t)
			require.Empty(t, totals)
			requireConsistent(t, l)
		}
		other := testIntent("0xaa", "0x02")
		other.PaymentID = "pid"
		require.NoError(t, l.InsertIntent(t.Context(), other), "neither the payer nor the identifier is held")
	})
}

// A SQLite file has one process, a PostgreSQL
// database may have others.
func TestIntentLeaseAfterRestart(t *testing.T) {
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
			require.ErrorIs(t, err, ErrLeaseHeld)
		}
		require.Equal(t, before, after)
	})
}

// The lease that its last look took
// says nothing of the next one.
func TestDueOpenSoonAfterRestart(t *testing.T) {
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

func TestSubscriberLeaseAfterRestart(t *testing.T) {
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

// jump is by how much the clock of these tests runs ahead for a while.
const jump = 40 * 24 * 60 * 60

// A clock that jumps ahead and back locks no payer out: what was stored meanwhile is due now.
func TestDueWorkAfterClockJumpBack(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		ctx, key := t.Context(), testIntent("0xa", "0x01").IntentKey
		require.NoError(t, l.InsertIntent(ctx, testIntent("0xa", "0x01")))
		// openDue compares what the poller reports with what is due.
		h := newHeard(t, l, testOffer)
		openDue := func() int {
			keys := must(l.DueOpen(ctx, testOffer, testAccount, 0, 10))(t)
			require.Len(t, h.beat(), len(keys))
			return len(keys)
		}
		require.Zero(t, openDue(), "an attempt works on it")

		clock.unix += jump
		require.NoError(t, l.UpdateOpenIntent(ctx, key, "ahead", clock.unix+110, "", ""))
		clock.unix -= jump
		require.False(t, mustIntent(t, l, key).Leased(clock.now()))
		require.Equal(t, 1, openDue(), "its lease")
		require.NoError(t, l.UpdateOpenIntent(ctx, key, "next", clock.unix+110, "", ""))
		require.True(t, mustIntent(t, l, key).Leased(clock.now()))
		require.Zero(t, openDue())
		require.ErrorIs(t, l.UpdateOpenIntent(ctx, key, "other", clock.unix+110, "", ""), ErrLeaseHeld)

		clock.unix += jump
		require.NoError(t, l.UpdateOpenIntent(ctx, key, "next", clock.unix, "", "timeout"))
		clock.unix -= jump
		require.Equal(t, 1, openDue(), "its next look")
		require.NoError(t, l.UpdateOpenIntent(ctx, key, "next", clock.unix, "", "timeout"))
		require.Zero(t, openDue(), "an eighth of its age has not passed")
	})
}

// A charge answers for its payer's next authorizations for two minutes, and not until the clock has come so far again.
func TestConflictingPaymentAfterClockJumpBack(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, clock *testClock) {
		ctx, key := t.Context(), testIntent("0xa", "0x01").IntentKey
		require.NoError(t, l.InsertIntent(ctx, testIntent("0xa", "0x01")))
		require.NoError(t, l.UnacknowledgeIntent(ctx, key))
		require.NoError(t, l.SettleIntent(ctx, key, "0x1", nil, EvidenceChain))
		clock.unix += jump
		require.NoError(t, l.AcknowledgeIntent(ctx, key, false))
		clock.unix -= jump
		next := testIntent("0xa", "0x02")
		next.ValidBefore = 9_000 // it was signed later
		other, found := find(l.ConflictingPayment(ctx, next))(t)
		require.False(t, found, other.Nonce)
		require.NoError(t, l.InsertIntent(ctx, next))
	})
}
