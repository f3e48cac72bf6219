package bench

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// spread is what the rounds gave.
type spread struct{ median, least, most float64 }

// spreadOf is that of at least one number.
func spreadOf(numbers []float64) spread {
	sorted := slices.Sorted(slices.Values(numbers))
	middle := sorted[len(sorted)/2]
	if len(sorted)%2 == 0 {
		middle = (sorted[len(sorted)/2-1] + middle) / 2
	}
	return spread{middle, sorted[0], sorted[len(sorted)-1]}
}

// ratio compares two sides round by round.
func ratio(over, under []float64) spread {
	ratios := make([]float64, len(over))
	for i := range over {
		ratios[i] = over[i] / under[i]
	}
	return spreadOf(ratios)
}

// microseconds are what ours and another side took of them.
func microseconds(ours, other []float64) string {
	return fmt.Sprintf("%s and %s µs", number(spreadOf(ours).median), number(spreadOf(other).median))
}

func (s spread) String() string {
	return fmt.Sprintf("%s (%s … %s)", number(s.median), number(s.least), number(s.most))
}

// number has three digits that mean something.
func number(n float64) string {
	switch {
	case n >= 100:
		return fmt.Sprintf("%.0f", n)
	case n >= 10:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.2f", n)
}

// line is a figure of the table.
type line struct {
	// figure says what is measured, goal what is wanted of it, and beside what it was in absolute numbers.
	figure, value, goal, beside string
}

// table is what a run has found.
type table struct{ lines []line }

func (t *table) add(figure string, value any, goal, beside string) {
	t.lines = append(t.lines, line{figure, fmt.Sprint(value), goal, beside})
}

// text is the table as a terminal shows it.
func (t *table) text() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tmedian (least … most)\tgoal\tabsolute")
	for _, l := range t.lines {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.figure, l.value, l.goal, l.beside)
	}
	_ = w.Flush() // into memory
	return out.String()
}
