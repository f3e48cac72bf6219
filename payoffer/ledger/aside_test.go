package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATransitionIsSetAsideWithThePositionOfItsSink(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, _ := d.ledger(t)
		lease := func(owner string, now, until int64) int64 {
			after, held, err := l.LeaseSink(t.Context(), testOffer, "hook", owner, now, until)
			require.NoError(t, err)
			require.True(t, held)
			return after
		}
		asides := func() (lines []string) {
			all, err := l.Asides(t.Context(), testOffer)
			require.NoError(t, err)
			for _, a := range all {
				lines = append(lines, a.Sink+" "+a.ExternalID+" "+a.Reason)
			}
			return lines
		}
		lease("a", 100, 200)
		mustRecord(t, l, chainSighting("0xa", StatusSeen))
		mustRecord(t, l, chainSighting("0xb", StatusSeen))
		transitions, err := l.Transitions(t.Context(), testOffer, 0, 10)
		require.NoError(t, err)
		first, second := transitions[0].Seq, transitions[1].Seq

		since, err := l.RefuseTransition(t.Context(), testOffer, "hook", first, 110)
		require.NoError(t, err)
		require.EqualValues(t, 110, since)
		since, err = l.RefuseTransition(t.Context(), testOffer, "hook", first, 120)
		require.NoError(t, err)
		require.EqualValues(t, 110, since, "the first refusal")
		require.Empty(t, asides(), "it is still tried")

		require.ErrorIs(t, l.SetAside(t.Context(), testOffer, "hook", "b", first, "refused", 130), ErrSinkTaken)
		require.Empty(t, asides(), "all or nothing")
		require.NoError(t, l.SetAside(t.Context(), testOffer, "hook", "a", first, "refused", 130))
		require.Equal(t, []string{"hook eip155:84532:0xa:0 refused"}, asides())
		require.Equal(t, first, lease("a", 131, 200))
		all, err := l.Asides(t.Context(), testOffer)
		require.NoError(t, err)
		require.EqualValues(t, 110, all[0].Since)
		require.Equal(t, transitions[0], all[0].Transition)
		foreign, err := l.Asides(t.Context(), "other.example")
		require.NoError(t, err)
		require.Empty(t, foreign)

		_, err = l.RefuseTransition(t.Context(), testOffer, "hook", second, 140)
		require.NoError(t, err)
		require.NoError(t, l.AdvanceSink(t.Context(), testOffer, "hook", "a", second))
		since, err = l.RefuseTransition(t.Context(), testOffer, "hook", second, 150)
		require.NoError(t, err)
		require.EqualValues(t, 150, since, "what was taken is not refused any more")

		require.NoError(t, l.ForgetAside(t.Context(), testOffer, "other", first))
		require.Len(t, asides(), 1)
		require.NoError(t, l.ForgetAside(t.Context(), testOffer, "hook", first))
		require.NoError(t, l.ForgetAside(t.Context(), testOffer, "hook", first))
		require.Empty(t, asides())
	})
}
