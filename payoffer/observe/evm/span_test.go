package evm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheRangeGrowsWithSuccessAndHalvesWithFailure(t *testing.T) {
	var s span
	require.EqualValues(t, 1000, s.size())
	for _, want := range []uint64{1250, 1562, 1952, 2440, 3050, 3812, 4765, 5000, 5000} {
		s.grow()
		require.Equal(t, want, s.size())
	}
	for _, want := range []uint64{2500, 1250, 625, 312, 156, 78, 39, 19, 9, 4, 2, 1} {
		require.True(t, s.shrink())
		require.Equal(t, want, s.size())
	}
	require.False(t, s.shrink(), "there is no smaller range")
	require.EqualValues(t, 1, s.size())
	s.grow()
	require.EqualValues(t, 2, s.size(), "one block is no dead end")
}
