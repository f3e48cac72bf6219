// Package clock finds out whether the clock of this machine is wrong, by the Date of
// HTTP responses and by the time of blocks.
package clock

import (
	"log/slog"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// tolerance is how far the clock may be off. A wrong clock counts as right again
	// below rightBelow, because the times of hosts and blocks are inexact.
	tolerance  = 60 * time.Second
	rightBelow = 45 * time.Second
	// alike is how far apart the offsets of two hosts may be that agree.
	alike = 60 * time.Second
	// maxAge is how long a sample counts.
	maxAge = 10 * time.Minute
	// stepped is how far wall clock and monotonic clock may diverge after a sample.
	// Beyond it the clock was set, or the machine slept.
	stepped = 5 * time.Second
	// quorum is how many hosts must agree.
	quorum = 2
)

// Clock compares the clock of this machine with others. It is safe for concurrent use.
type Clock struct {
	now    func() time.Time
	logger *slog.Logger

	mu     sync.Mutex
	hosts  map[string]sample
	chains map[string]sample
	wrong  bool // the last result
}

// sample is how far our clock was ahead of a source, and when.
type sample struct {
	ahead time.Duration
	at    time.Time
}

// New makes a Clock that compares now, and logs when the clock becomes wrong or right.
func New(now func() time.Time, logger *slog.Logger) *Clock {
	return &Clock{now: now, logger: logger, hosts: make(map[string]sample), chains: make(map[string]sample)}
}

// Date adds the current time of a host.
func (c *Clock) Date(host string, date time.Time) { c.add(c.hosts, host, date) }

// Block adds the time of a chain's newest block, in Unix seconds. It can only prove that
// our clock is behind, because a chain may halt.
func (c *Clock) Block(chain string, unix int64) { c.add(c.chains, chain, time.Unix(unix, 0)) }

func (c *Clock) add(sources map[string]sample, name string, theirs time.Time) {
	c.mu.Lock()
	now := c.now()
	sources[name] = sample{now.Sub(theirs), now}
	c.mu.Unlock()
	c.Offset()
}

// Wrong reports whether the clock is off by more than a minute.
func (c *Clock) Wrong() bool { return c.Offset() != 0 }

// Offset is how far the clock is ahead, negative if it is behind, and 0 while nothing
// proves that it is wrong. It does no I/O except for the log.
func (c *Clock) Offset() time.Duration {
	c.mu.Lock()
	now, limit := c.now(), tolerance
	if c.wrong {
		limit = rightBelow
	}
	offset := agreed(fresh(c.hosts, now), limit)
	if chains := fresh(c.chains, now); offset == 0 && len(chains) > 0 && slices.Min(chains) < -limit {
		offset = slices.Min(chains)
	}
	changed := c.wrong != (offset != 0)
	c.wrong = offset != 0
	c.mu.Unlock()
	switch {
	case changed && offset != 0:
		c.logger.Warn("the clock of this machine is wrong", "seconds_ahead", Seconds(offset),
			"hint", "payments that look expired are retried until it is right; set it and keep it right by NTP")
	case changed:
		c.logger.Info("the clock of this machine is right again")
	}
	return offset
}

// fresh returns the offsets that still count: not too old, and the clock was not set since.
func fresh(sources map[string]sample, now time.Time) (offsets []time.Duration) {
	for _, s := range sources {
		passed := now.Sub(s.at)
		shown := now.Round(0).Sub(s.at.Round(0)) // without the monotonic reading
		if passed >= 0 && passed <= maxAge && (shown-passed).Abs() <= stepped {
			offsets = append(offsets, s.ahead)
		}
	}
	return offsets
}

// agreed returns the middle of the largest group of hosts that agree that the clock is off
// by more than limit, if it has a quorum and as many hosts as find the clock right; else 0.
func agreed(offsets []time.Duration, limit time.Duration) (offset time.Duration) {
	off := slices.DeleteFunc(slices.Clone(offsets), func(o time.Duration) bool { return o.Abs() <= limit })
	slices.Sort(off)
	most := max(quorum, len(offsets)-len(off))
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

// Seconds rounds an offset to whole seconds.
func Seconds(offset time.Duration) int64 { return int64(math.Round(offset.Seconds())) }

// transport adds the Date of each response to a clock.
type transport struct {
	http.RoundTripper
	clock *Clock
}

// Transport adds the Date of each response of next; nil means http.DefaultTransport.
func (c *Clock) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return transport{next, c}
}

// RoundTrip implements http.RoundTripper. The Date of a response from a cache, which has
// an Age (RFC 9111 section 5.1), is not the current time.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	date, invalid := http.ParseTime(response.Header.Get("Date"))
	if age := response.Header.Get("Age"); invalid == nil && (age == "" || age == "0") {
		t.clock.Date(r.URL.Hostname(), date)
	}
	return response, nil
}
