package rate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePriceIsTheMedianThatMostSourcesAreNear(t *testing.T) {
	for _, c := range []struct {
		name    string
		prices  []int64 // of a, b, c, d; 0 did not answer
		want    int64
		problem string
		wrong   string // the sources whose price is too far away
	}{
		{"no answer", []int64{0, 0, 0, 0}, 0, "too few answers", ""},
		{"one of four", []int64{0, 90_000, 0, 0}, 0, "too few answers", ""},
		{"one of two", []int64{90_000, 0}, 0, "too few answers", ""},
		{"the only one", []int64{90_000}, 90_000, "", ""},
		{"two of four", []int64{0, 90_000, 0, 90_100}, 90_050, "", ""},
		{"three", []int64{90_200, 90_000, 90_100}, 90_100, "", ""},
		{"four, rounded down", []int64{90_003, 90_000, 90_100, 89_900}, 90_001, "", ""},
		{"one of four too high", []int64{900_000, 90_000, 90_100, 89_900}, 90_050, "", "a"},
		{"one of four too low", []int64{90_000, 90_100, 9_000, 89_900}, 89_950, "", "c"},
		{"one of three too low", []int64{90_000, 100, 90_100}, 90_000, "", "b"},
		{"two that differ by 5 %", []int64{97_500, 102_500}, 100_000, "", ""},
		{"two that differ by more", []int64{97_499, 102_501}, 0, "prices disagree", "ab"},
		{"two against two", []int64{90_000, 90_000, 180_000, 180_000}, 0, "prices disagree", "abcd"},
		{"three apart", []int64{80_000, 90_000, 100_000}, 0, "prices disagree", "ac"},
		{"half of four apart", []int64{90_000, 90_000, 100_000, 80_000}, 0, "prices disagree", "cd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var answers []Answer
			for i, price := range c.prices {
				answers = append(answers, Answer{Source: fmt.Sprintf("%c", 'a'+i), MicroUSD: price})
			}
			median, problem := agree(answers)
			require.Equal(t, c.want, median)
			require.Equal(t, c.problem, problem)
			wrong := ""
			for _, a := range answers {
				if a.Reason == reasonDisagree {
					wrong += a.Source
				}
			}
			require.Equal(t, c.wrong, wrong)
		})
	}
}
