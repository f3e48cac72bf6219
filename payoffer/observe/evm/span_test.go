package evm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An endpoint that takes so many blocks and no more is soon asked for just as many, and rarely for more.
func TestTheRangeAdaptsToTheEndpoint(t *testing.T) {
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
