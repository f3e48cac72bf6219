package announce

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

const (
	// pauseFirst and pauseMost bound the pause after a failure, which doubles
	// each time.
	pauseFirst = 5 * time.Second
	pauseMost  = 5 * time.Minute
	// pauseGone is the pause after a receiver said that it is gone for good:
	// only the operator can know.
	pauseGone = time.Hour
	// pauseAsked is the longest pause that a receiver may ask for.
	pauseAsked = time.Hour
)

// pause is the time to the next try after so many failures in a row. Up to a
// fifth of it is taken away by random, in [0, 1), but never of what the
// receiver asked for.
func pause(failures int, f failure, random float64) time.Duration {
	d := min(pauseFirst<<min(failures-1, 10), pauseMost)
	if f.code == codeGone {
		d = pauseGone
	}
	d -= time.Duration(random * float64(d) / 5)
	return max(d, f.wait)
}

// retryAfter reads Retry-After (RFC 9110 section 10.2.3): the pause that it
// asks for, 0 for none and at most pauseAsked.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 32)
	if err == nil {
		return min(time.Duration(seconds)*time.Second, pauseAsked)
	}
	if errors.Is(err, strconv.ErrRange) {
		return pauseAsked
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), pauseAsked)
}
