// Package clock finds out whether the clock of this machine is wrong, by the Date of
// HTTP responses.
package clock

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// tolerance is how far the clock may be off.
	tolerance = time.Minute
	// maxAge is how long a sample counts.
	maxAge = 10 * time.Minute
	// stepped is how far wall clock and monotonic clock may diverge after a sample.
	// Beyond it the clock was set, or the machine slept.
	stepped = 5 * time.Second
	// quorum is how many hosts must have a sample.
	quorum = 2
)

// Clock compares the clock of this machine with others. It is safe for concurrent use.
type Clock struct {
	now func() time.Time

	mu    sync.Mutex
	hosts map[string]sample
}

// sample is how far our clock was ahead of a host, and when.
type sample struct {
	ahead time.Duration
	at    time.Time
}

// New makes a Clock that compares now.
func New(now func() time.Time) *Clock {
	return &Clock{now: now, hosts: make(map[string]sample)}
}

// Date adds the current time of a host.
func (c *Clock) Date(host string, date time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.hosts[host] = sample{now.Sub(date), now}
}

// Wrong reports whether the clock is off by more than a minute.
func (c *Clock) Wrong() bool { return c.Offset() != 0 }

// Offset is how far the clock is ahead, negative if it is behind: the median of the hosts, and of
// two in the middle the one nearer 0. It is 0 up to a minute, and without two hosts.
func (c *Clock) Offset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	var offsets []time.Duration
	for _, s := range c.hosts {
		passed := now.Sub(s.at)
		shown := now.Round(0).Sub(s.at.Round(0)) // without the monotonic reading
		if passed >= 0 && passed <= maxAge && (shown-passed).Abs() <= stepped {
			offsets = append(offsets, s.ahead)
		}
	}
	if len(offsets) < quorum {
		return 0
	}
	slices.Sort(offsets)
	low, high := offsets[(len(offsets)-1)/2], offsets[len(offsets)/2]
	switch {
	case low > tolerance:
		return low
	case high < -tolerance:
		return high
	}
	return 0
}

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
