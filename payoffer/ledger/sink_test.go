package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSinkHasOneReaderAtATime(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		lease := func(offer, owner string, now, until int64) (int64, bool) {
			after, held := find(l.LeaseSubscriber(t.Context(), offer, "hook", owner, now, until))(t)
			return after, held
		}
		mustRecord(t, l, chainObservation("0xa", StatusSeen))
		mustRecord(t, l, chainObservation("0xb", StatusSeen))
		transitions := must(l.Transitions(t.Context(), testOffer, 0, 10))(t)
		newest := transitions[1].Seq

		after, held := lease(testOffer, "a", 100, 200)
		require.True(t, held)
		require.Equal(t, newest, after, "what happened before is not told")
		after, held = lease("other", "b", 100, 200)
		require.True(t, held)
		require.Zero(t, after, "an offer has its own sinks")
		mustRecord(t, l, chainObservation("0xc", StatusSeen))

		_, held = lease(testOffer, "b", 199, 300)
		require.False(t, held)
		require.ErrorIs(t, l.AdvanceSubscriber(t.Context(), testOffer, "hook", "b", newest+1), ErrSubscriberTaken)
		require.NoError(t, l.AdvanceSubscriber(t.Context(), testOffer, "hook", "a", newest+1))
		require.NoError(t, l.AdvanceSubscriber(t.Context(), testOffer, "hook", "a", newest), "it never goes back")
		after, held = lease(testOffer, "a", 150, 400)
		require.True(t, held, "its owner holds on to it")
		require.Equal(t, newest+1, after)

		_, held = lease(testOffer, "b", 399, 500)
		require.False(t, held)
		after, held = lease(testOffer, "b", 400, 500)
		require.True(t, held, "the lease ran out")
		require.Equal(t, newest+1, after)
		require.ErrorIs(t, l.AdvanceSubscriber(t.Context(), testOffer, "hook", "a", newest+9), ErrSubscriberTaken)

		_, held = lease(testOffer, "b", 401, 401)
		require.True(t, held)
		_, held = lease(testOffer, "a", 401, 500)
		require.True(t, held, "it was given up")
		require.ErrorIs(t, l.AdvanceSubscriber(t.Context(), testOffer, "unknown", "a", 1), ErrSubscriberTaken)
	})
}

// TestPostgresSinkIsLeasedOnce lets instances ask for a new sink at once.
func TestPostgresSinkIsLeasedOnce(t *testing.T) {
	t.Parallel()
	all := instances(t, 4)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		owners := make(chan string, len(all))
		for n, l := range all {
			go func() {
				owner := string(rune('0' + n))
				if _, held, err := l.LeaseSubscriber(t.Context(), testOffer, name, owner, 100, 200); err != nil || !held {
					owner = ""
				}
				owners <- owner
			}()
		}
		held := 0
		for range all {
			if <-owners != "" {
				held++
			}
		}
		require.Equal(t, 1, held)
	}
}

func TestARefusalCountsFromTheFirstOneUntilTheSinkAdvances(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		refuse := func(now int64) int64 {
			return must(l.RefuseTransition(t.Context(), testOffer, "hook", "a", now))(t)
		}
		find(l.LeaseSubscriber(t.Context(), testOffer, "hook", "a", 100, 200))(t)
		require.EqualValues(t, 110, refuse(110))
		require.EqualValues(t, 110, refuse(120))
		require.EqualValues(t, 105, refuse(105), "the clock was ahead")
		require.ErrorIs(t, errorOf(l.RefuseTransition(t.Context(), testOffer, "hook", "b", 130)), ErrSubscriberTaken)
		require.NoError(t, l.AdvanceSubscriber(t.Context(), testOffer, "hook", "a", 1))
		require.EqualValues(t, 140, refuse(140))
	})
}
