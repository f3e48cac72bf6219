package lightning

import (
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// entry is an open invoice and how it was asked for.
type entry struct {
	ledger.Invoice
	asked, watched    time.Time // zero for never
	unpaid            time.Time // when the wallet said so last
	failures, unknown int       // in a row
	contradicted      bool      // the last answer was about another payment
}

// due is when an invoice is asked for next: less often with its age, and rarely while that fails.
func (e *entry) due(now time.Time) time.Time {
	if e.asked.IsZero() {
		return time.Unix(min(e.CreatedAt, now.Unix()), 0)
	}
	age := e.asked.Sub(time.Unix(e.CreatedAt, 0))
	pause := age / 12
	switch {
	case age < 2*time.Minute:
		pause = 3 * time.Second
	case age < 10*time.Minute:
		pause = 10 * time.Second
	case age < time.Hour:
		pause = 30 * time.Second
	}
	longest := longestPause
	if e.isWatched(now) {
		longest = watchedPause
	}
	return e.asked.Add(min(pause<<min(e.failures, 10), max(pause, longest)))
}

// isWatched reports whether a payer is probably about to pay.
func (e *entry) isWatched(now time.Time) bool {
	end := min(e.ExpireAt, e.CreatedAt+int64(watchedAge/time.Second))
	return now.Before(e.watched.Add(watchFor)) && now.Unix() < end
}

// urgency is how long an invoice waits, in proportion to its age after the first minute, in which most payers pay.
func (e *entry) urgency(now time.Time) float64 {
	return float64(now.Sub(e.asked)) / float64(max(now.Sub(time.Unix(e.CreatedAt, 0)), time.Minute))
}
