package clock

import (
	"slices"
	"time"
)

// said are the offsets by the sources whose word still counts. The clock may
// have been set since: the time that has passed, by the clock and in truth,
// tells.
func said(sources map[string]sample, now time.Time) (offsets []time.Duration) {
	for _, s := range sources {
		passed := now.Sub(s.at)
		shown := now.Round(0).Sub(s.at.Round(0)) // Round takes the monotonic reading away
		if passed >= 0 && passed <= fresh && (shown-passed).Abs() <= stepped {
			offsets = append(offsets, s.ahead)
		}
	}
	return offsets
}

// agreed is the offset that most of those hosts say by whom the clock is off by
// more than limit: the middle one of them, if they are enough and not fewer than
// those by whom it is right; else 0.
func agreed(offsets []time.Duration, limit time.Duration) (offset time.Duration) {
	off := slices.DeleteFunc(slices.Clone(offsets), func(o time.Duration) bool { return o.Abs() <= limit })
	slices.Sort(off)
	most := max(enough, len(offsets)-len(off))
	for from, to := 0, 0; from < len(off); from++ {
		for to < len(off) && off[to]-off[from] <= alike {
			to++
		}
		if same := off[from:to]; len(same) >= most {
			most, offset = len(same)+1, same[len(same)/2]
		}
	}
	return offset
}

// behind is the offset by the chain that is furthest ahead of the clock, if that
// is by more than limit; else 0.
func behind(offsets []time.Duration, limit time.Duration) time.Duration {
	if len(offsets) == 0 || slices.Min(offsets) >= -limit {
		return 0
	}
	return slices.Min(offsets)
}
