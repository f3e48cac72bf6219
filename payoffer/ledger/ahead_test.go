package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// jump is by how much the clock of these tests runs ahead for a while.
const jump = 40 * 24 * 60 * 60

// A clock that jumps ahead and back locks no payer out: what was stored meanwhile is due now.
func TestWhatAClockThatRanAheadHasStoredIsDue(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		ctx, key := t.Context(), testIntent("0xa", "0x01").IntentKey
		require.NoError(t, l.InsertIntent(ctx, testIntent("0xa", "0x01")))
		// openDue is what the offer is told, and what is taken.
		openDue := func() int {
			found := must(l.allDue(ctx, clock.unix))(t)
			keys := must(l.DueOpen(ctx, testOffer, testAccount, 0, 10))(t)
			told := 0
			for _, one := range found {
				if one.intents {
					told++
				}
			}
			require.Equal(t, len(keys), told)
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
		require.ErrorIs(t, l.UpdateOpenIntent(ctx, key, "other", clock.unix+110, "", ""), errLeaseHeld)

		clock.unix += jump
		require.NoError(t, l.UpdateOpenIntent(ctx, key, "next", clock.unix, "", "timeout"))
		clock.unix -= jump
		require.Equal(t, 1, openDue(), "its next look")
		require.NoError(t, l.UpdateOpenIntent(ctx, key, "next", clock.unix, "", "timeout"))
		require.Zero(t, openDue(), "an eighth of its age has not passed")
	})
}

// A charge answers for its payer's next authorizations for two minutes, and not until the clock has come so far again.
func TestAChargeThatWasToldByAClockAheadAnswersForNoOther(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
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
