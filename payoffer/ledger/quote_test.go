package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheLargestQuoteThatWasPaidIsFound(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		note := func(satoshis, cents, at int64) {
			require.NoError(t, l.StoreQuote(t.Context(), testOffer, satoshis, cents, at))
		}
		quoted := func(satoshis, since, until int64) any {
			q, found := find(l.Quoted(t.Context(), testOffer, satoshis, since, until))(t)
			if !found {
				require.Zero(t, q)
				return nil
			}
			require.LessOrEqual(t, q.Satoshis, satoshis)
			return q.USDCents
		}
		note(46_667, 4_200, 1_000)
		note(46_667, 4_300, 2_000)
		note(46_668, 4_400, 3_000)
		note(46_667, 4_301, 2_000)
		require.EqualValues(t, 4_301, quoted(46_667, 0, 9_000), "the newest, as it was noted last")
		require.EqualValues(t, 4_200, quoted(46_667, 1_000, 1_999))
		require.EqualValues(t, 4_200, quoted(46_667, 1_000, 1_000))
		require.Nil(t, quoted(46_667, 2_001, 9_000))
		require.EqualValues(t, 4_400, quoted(46_668, 0, 9_000))
		require.EqualValues(t, 4_400, quoted(99_999, 0, 9_000), "the most satoshis that were paid")
		require.EqualValues(t, 4_301, quoted(99_999, 0, 2_999), "of those in time")
		require.Nil(t, quoted(46_666, 0, 9_000))
		_, found := find(l.Quoted(t.Context(), "other", 46_667, 0, 9_000))(t)
		require.False(t, found)

		clock.set(2_000 + quoteDays*24*60*60)
		note(1, 1, 2_000+quoteDays*24*60*60)
		require.Nil(t, quoted(46_667, 0, 1_999), "30 days old")
		require.EqualValues(t, 4_301, quoted(46_667, 0, 9_000))
	})
}
