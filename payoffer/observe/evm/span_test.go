package evm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheRangeGrowsWithAnswersAndHalvesWithFailures(t *testing.T) {
	var s span
	require.EqualValues(t, 1000, s.size())
	s.grow(999)
	require.EqualValues(t, 1000, s.size(), "less than was to be asked for says nothing")
	s = span{}
	for _, want := range []uint64{1250, 1562, 1952, 2440, 3050, 3812, 4765, 5000, 5000} {
		s.grow(s.size())
		require.Equal(t, want, s.size())
	}
	for _, want := range []uint64{2500, 1250, 625, 312, 156, 78, 39, 19, 9, 4, 2, 1} {
		require.True(t, s.shrink(s.size(), false))
		require.Equal(t, want, s.size())
	}
	require.False(t, s.shrink(1, false), "there is no smaller range")
	require.EqualValues(t, 1, s.size())
	s.grow(1)
	require.EqualValues(t, 2, s.size(), "one block is no dead end")
}

// An endpoint that takes so many blocks and no more is soon asked for just as many, and rarely for more.
func TestTheRangeThatAnEndpointTakesIsLearnt(t *testing.T) {
	for _, limit := range []uint64{1, 2, 3, 5, 10, 100, 800, 2000, 4999, 5000, 10_000} {
		var s span
		refusals, asked := 0, uint64(0)
		ask := func(times int) {
			refusals, asked = 0, 0
			for range times {
				if size := s.size(); size > limit {
					refusals++
					require.True(t, s.shrink(size, true))
				} else {
					asked += size
					s.grow(size)
				}
			}
		}
		ask(100)
		require.LessOrEqual(t, refusals, 24, limit)
		ask(1000)
		require.LessOrEqual(t, refusals, 150, limit)
		require.GreaterOrEqual(t, asked, min(limit, spanMost)*850, limit)

		// It takes more again.
		limit = spanMost
		ask(2000)
		require.EqualValues(t, spanMost, s.size(), limit)
	}
}
