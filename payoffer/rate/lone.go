package rate

import (
	"slices"
	"time"
)

const (
	// jumpWindow is the time within which a price that moves by more than
	// maxJumpPercent jumps.
	jumpWindow = 10 * time.Minute
	// holdFor is how long the only source must hold a price that it jumped to,
	// and maxSilence how long it may say nothing meanwhile.
	holdFor, maxSilence = time.Hour, jumpWindow
)

// lone decides what is believed of the only source, which no other contradicts.
// The Watcher's round lock guards it.
type lone struct {
	believed []sample // of the last jumpWindow, and the last one however old
	claim    claim
}

// sample is a price at a time.
type sample struct {
	microUSD int64
	at       time.Time
}

// claim is a price that the source jumped to and holds; the zero claim is none.
type claim struct {
	low, high   int64
	since, last time.Time
}

// believes reports whether the source's price at now is taken: one that did not
// jump is, one that did once it was held for holdFor, and one that is back where
// the last one believed was.
func (l *lone) believes(microUSD int64, now time.Time) bool {
	if l.jumped(microUSD, now) && !l.held(microUSD, now) {
		return false
	}
	l.claim = claim{}
	l.believed = slices.DeleteFunc(l.believed, func(s sample) bool { return now.Sub(s.at) > jumpWindow })
	l.believed = append(l.believed, sample{microUSD, now})
	return true
}

// jumped reports whether a price is too far from one that was believed within
// jumpWindow. Once it has jumped the last one that was believed does not age.
func (l *lone) jumped(microUSD int64, now time.Time) bool {
	for i, s := range l.believed {
		pending := l.claim != (claim{}) && i == len(l.believed)-1
		if (pending || now.Sub(s.at) <= jumpWindow) && differs(s.microUSD, microUSD, maxJumpPercent) {
			return true
		}
	}
	return false
}

// held reports whether the price has stood where it jumped to for holdFor.
func (l *lone) held(microUSD int64, now time.Time) bool {
	c := &l.claim
	if silence := now.Sub(c.last); silence < 0 || silence > maxSilence ||
		differs(c.low, microUSD, maxJumpPercent) || differs(c.high, microUSD, maxJumpPercent) {
		*c = claim{microUSD, microUSD, now, now}
		return false
	}
	c.low, c.high, c.last = min(c.low, microUSD), max(c.high, microUSD), now
	return now.Sub(c.since) >= holdFor
}
