package rate

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAgree(t *testing.T) {
	names := []string{"d", "c", "b", "a"}
	for _, c := range []struct {
		name     string
		prices   []int64 // of d, c, b, a
		quorum   int     // 2 where it is left out
		want     int64
		sources  []string
		outliers []string
	}{
		{name: "nobody answered"},
		{name: "one answer of many sources is not enough", prices: []int64{90_000}},
		{name: "one answer of the only source is", prices: []int64{90_000}, quorum: 1, want: 90_000, sources: []string{"d"}},
		{name: "an odd count has its middle", prices: []int64{90_200, 90_000, 90_100}, want: 90_100, sources: []string{"b", "c", "d"}},
		{name: "an even count has the mean of its middle two, rounded down", prices: []int64{90_003, 90_000, 90_100, 89_900}, want: 90_001, sources: []string{"a", "b", "c", "d"}},
		{name: "one that lies by ten is left out", prices: []int64{900_000, 90_000, 90_100, 89_900}, want: 90_000, sources: []string{"a", "b", "c"}, outliers: []string{"d"}},
		{name: "one that lies by a tenth is left out", prices: []int64{9_000, 90_000, 90_100, 89_900}, want: 90_000, sources: []string{"a", "b", "c"}, outliers: []string{"d"}},
		{name: "two within one percent agree", prices: []int64{100_000, 101_000}, want: 100_500, sources: []string{"c", "d"}},
		{name: "two above one percent do not", prices: []int64{100_000, 101_001}},
		{name: "two against two is nothing", prices: []int64{90_000, 90_000, 180_000, 180_000}},
		{name: "all disagree", prices: []int64{90_000, 95_000, 100_000, 105_000}},
		{name: "near the median but not near the others is left out and no outlier", prices: []int64{100_000, 101_900, 101_950}, want: 101_925, sources: []string{"b", "c"}},
		{name: "of two equal groups the cheaper counts", prices: []int64{100_000, 100_100, 102_000, 102_100}, want: 100_050, sources: []string{"c", "d"}},
		{name: "two of four that tell the same are no quorum of three", prices: []int64{3_000, 3_000, 90_000}, quorum: 3},
		{name: "nor beside two that tell another", prices: []int64{90_000, 90_000, 91_500, 91_500}, quorum: 3},
		{name: "three of four are", prices: []int64{90_000, 90_100, 90_200, 3_000}, quorum: 3, want: 90_100, sources: []string{"b", "c", "d"}, outliers: []string{"a"}},
		{name: "exactly two percent from the median is no outlier", prices: []int64{98_000, 100_000, 100_000}, want: 100_000, sources: []string{"b", "c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var quotes []quote
			for i, price := range c.prices {
				quotes = append(quotes, quote{source: names[i], microUSD: price})
			}
			require.Equal(t, agreement{c.want, c.sources, c.outliers}, agree(quotes, cmp.Or(c.quorum, 2)))
		})
	}
}

func TestAllButOneMustAgree(t *testing.T) {
	for set, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3} {
		require.Equal(t, want, quorum(set), "%d sources", set)
	}
	require.Len(t, known, 4, "and more are not known")
}
