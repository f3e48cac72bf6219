package bench

import (
	"encoding/xml"
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

func TestAChartIsAPictureOfAllPoints(t *testing.T) {
	var made table
	c := newChart(&made, "a.svg", "Seconds", "offers")
	for _, x := range []float64{1, 10, 100, 1000} {
		c.point("start", x, x/10)
		c.point("reload", x, 1)
	}
	require.Equal(t, []*chart{c}, made.charts)
	svg := c.svg()
	require.Contains(t, svg, `<polyline points="60.0,270.0 196.7,193.3 333.3,116.7 470.0,40.0"`)
	require.Contains(t, svg, `<polyline points="60.0,193.3 196.7,193.3 333.3,193.3 470.0,193.3"`)
	require.NoError(t, xml.Unmarshal([]byte(svg), new(struct{ XMLName xml.Name })))
}

func TestTheProcessorTimeOfAProcessGrowsWithItsWork(t *testing.T) {
	s := startLibrary(t, []byte(`{"content":[]}`))
	before := processorTime(t, s.pid)
	require.Positive(t, s.cost(t, toolCall, 200, 20))
	require.Greater(t, processorTime(t, s.pid), before)
}
