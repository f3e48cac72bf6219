package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFigureIsTheMedianWithTheLeastAndTheMost(t *testing.T) {
	for _, c := range []struct {
		numbers []float64
		want    string
	}{
		{[]float64{3, 1, 2}, "2.00 (1.00 … 3.00)"},
		{[]float64{4, 1, 2, 30}, "3.00 (1.00 … 30.0)"},
		{[]float64{1234.5}, "1234 (1234 … 1234)"},
	} {
		require.Equal(t, c.want, spreadOf(c.numbers).String())
	}
}

// What slows down a round slows down both sides: a ratio is of one round, not of the medians.
func TestARatioComparesTheSidesOfEachRound(t *testing.T) {
	require.Equal(t, spread{2, 2, 4}, ratio([]float64{2, 200, 12}, []float64{1, 100, 3}))
}

func TestTheProcessorTimeOfAProcessGrowsWithItsWork(t *testing.T) {
	s := startLibrary(t, []byte(`{"content":[]}`))
	before := processorTime(t, s.pid)
	require.Positive(t, s.cost(t, toolCall, 200, 20))
	require.Greater(t, processorTime(t, s.pid), before)
}
