package announce

import (
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// pauseFirst and pauseMost bound the pause after a failure, which doubles
	// each time.
	pauseFirst = 5 * time.Second
	pauseMost  = 5 * time.Minute
	// pauseGone is the pause after a receiver said that it is gone for good:
	// only the operator can know.
	pauseGone = time.Hour
)

// pause is the time to the next try after so many failures in a row: never less
// than the receiver asked for, and of everything else up to a fifth less by
// random, in [0, 1).
func pause(failures int, f failure, random float64) time.Duration {
	d := source.Backoff(failures, pauseFirst, pauseMost, random)
	if f.code == codeGone {
		d = source.Spread(pauseGone, random)
	}
	return max(d, f.wait)
}
