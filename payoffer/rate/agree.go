package rate

import (
	"cmp"
	"slices"
)

const (
	maxOutlierPercent = 2 // distance of a usable price from the median of all
	maxSpreadPercent  = 1 // between the lowest and the highest agreeing price
)

// quorum is how many sources must agree of those that are set: all but one, but
// two of two, and the only one. Two of four that lie together make none, whoever
// else is silent: a third is within maxSpreadPercent of them, and it is honest.
func quorum(set int) int { return min(set, max(2, set-1)) }

// quote is what one source answered.
type quote struct {
	source   string
	microUSD int64
}

// agreement is what several quotes come to.
type agreement struct {
	microUSD int64    // 0 if there is no agreement
	sources  []string // the agreeing ones, in alphabetical order
	outliers []string // sources that an agreement shows to be wrong
}

// agree finds the largest group of quotes that are near the median of all and
// near to each other, and takes the median of that group. Of groups of the same
// size the cheapest wins, so that the payee does not get less. A group of less
// than quorum is none.
func agree(quotes []quote, quorum int) agreement {
	sorted := slices.SortedFunc(slices.Values(quotes), func(a, b quote) int {
		return cmp.Compare(a.microUSD, b.microUSD)
	})
	near, outliers := split(sorted)
	group := largestGroup(near)
	if len(group) < quorum {
		return agreement{}
	}
	return agreement{microUSD: median(group), sources: names(group), outliers: names(outliers)}
}

// split separates the quotes near the median of all from the others.
func split(sorted []quote) (near, outliers []quote) {
	for _, q := range sorted {
		if differs(median(sorted), q.microUSD, maxOutlierPercent) {
			outliers = append(outliers, q)
		} else {
			near = append(near, q)
		}
	}
	return near, outliers
}

// largestGroup is the longest run of sorted quotes that agree with its first.
func largestGroup(sorted []quote) []quote {
	var largest []quote
	for first := range sorted {
		end := first + 1
		for end < len(sorted) && !differs(sorted[first].microUSD, sorted[end].microUSD, maxSpreadPercent) {
			end++
		}
		if end-first > len(largest) {
			largest = sorted[first:end]
		}
	}
	return largest
}

// median of sorted quotes, which must not be empty; of an even number of them,
// the mean of the middle two, rounded down.
func median(sorted []quote) int64 {
	upper := len(sorted) / 2
	lower := (len(sorted) - 1) / 2
	return (sorted[lower].microUSD + sorted[upper].microUSD) / 2
}

// differs reports whether price is more than percent away from base. Prices
// are bounded by maxPrice, so nothing overflows.
func differs(base, price, percent int64) bool {
	distance := max(price-base, base-price)
	return distance*100 > base*percent
}

func names(quotes []quote) []string {
	var list []string
	for _, q := range quotes {
		list = append(list, q.source)
	}
	slices.Sort(list)
	return list
}
