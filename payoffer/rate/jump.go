package rate

import (
	"slices"
	"time"
)

const (
	// maxJumpPercent is how far a price may be from each that was believed within
	// driftWindow, and from the last one that was believed, however old.
	maxJumpPercent = 20
	driftWindow    = time.Hour
	// jumpQuorum is how many sources may make a jump believed without all others.
	jumpQuorum = 3
	// holdFor is how long a price that jumped must be held where not all of
	// jumpQuorum or more sources agree on it, and maxSilence how long nobody may
	// tell it meanwhile.
	holdFor, maxSilence = time.Hour, 10 * time.Minute
)

// memory holds a price that a quorum agrees on against those that were believed
// before. One that jumped is refused until it is back within maxJumpPercent, or:
//
//	of   agree   it is believed
//	4    4       at once
//	4    3       when it was held for an hour
//	3    3       at once
//	3    2       when the third agrees
//	2    2       when it was held for an hour
//	1    1       when it was held for an hour
//
// So it is never the age of the rate before that lets a jump pass. Two that lie
// together while others are silent gain nothing by holding it: of three that agree
// one is honest and within maxSpreadPercent of the price, and two of three wait for
// the third. That three of four may hold it lets the rate follow the price in a
// crash although one source is gone for good. Two of three cannot; there the
// operator names those that are left.
//
// A process that has just started has believed nothing, and the quorum alone
// decides: a restart is no way around it for two liars of four, nor for one of two
// or three. Who sets a single source takes its word then. A reload keeps what was
// believed.
//
// The Watcher's round lock guards it.
type memory struct {
	believed []sample // of the last driftWindow, and the last one however old
	claim    claim
}

// sample is a price at a time.
type sample struct {
	microUSD int64
	at       time.Time
}

// claim is a price that was jumped to and is held; the zero claim is none.
type claim struct {
	low, high   int64
	since, last time.Time
}

// believes reports whether a price that so many of the sources that are set agree
// on at now is taken.
func (m *memory) believes(microUSD int64, agreed, set int, now time.Time) bool {
	if last := len(m.believed) - 1; last > 0 {
		old := func(s sample) bool { return now.Sub(s.at).Abs() > driftWindow }
		m.believed = append(slices.DeleteFunc(m.believed[:last:last], old), m.believed[last])
	}
	if slices.ContainsFunc(m.believed, func(s sample) bool { return differs(s.microUSD, microUSD, maxJumpPercent) }) {
		if !m.lifts(microUSD, agreed, set, now) {
			return false
		}
		m.believed = nil // it begins anew, or the next price would have jumped back
	}
	m.believed, m.claim = append(m.believed, sample{microUSD, now}), claim{}
	return true
}

// lifts reports whether a price that jumped is taken nevertheless.
func (m *memory) lifts(microUSD int64, agreed, set int, now time.Time) bool {
	switch all, several := agreed == set, agreed >= jumpQuorum; {
	case all && several:
		return true
	case all || several:
		return m.held(microUSD, now)
	}
	return false
}

// held reports whether the price has stood where it jumped to for holdFor.
func (m *memory) held(microUSD int64, now time.Time) bool {
	c := &m.claim
	if silence := now.Sub(c.last); silence < 0 || silence > maxSilence ||
		differs(c.low, microUSD, maxJumpPercent) || differs(c.high, microUSD, maxJumpPercent) {
		*c = claim{microUSD, microUSD, now, now}
		return false
	}
	c.low, c.high, c.last = min(c.low, microUSD), max(c.high, microUSD), now
	return now.Sub(c.since) >= holdFor
}
