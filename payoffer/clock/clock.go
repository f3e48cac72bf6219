// Package clock says whether the clock of this machine is wrong, by what others
// say of the time: the Date of their answers, and the blocks of chains.
package clock

import (
	"log/slog"
	"math"
	"sync"
	"time"
)

const (
	// tolerance is how far the clock may be off. Once it is wrong it is right
	// again below rightBelow: between the two nothing changes, for the times of
	// others are whole seconds, and those of blocks lag by as many as a chain
	// takes to make one.
	tolerance  = 60 * time.Second
	rightBelow = 45 * time.Second
	// alike is how far apart two hosts may be that say the same.
	alike = 60 * time.Second
	// fresh is how long a word of the time counts.
	fresh = 10 * time.Minute
	// stepped is how far the clock and the time that has passed may part after
	// a word: beyond it the clock was set, or the machine slept.
	stepped = 5 * time.Second
	// enough is how many hosts must say the same.
	enough = 2
	// maxSources bounds the hosts, and the chains, that are remembered.
	maxSources = 256
)

// Clock compares the clock of this machine with others. It is safe for
// concurrent use.
type Clock struct {
	now    func() time.Time
	logger *slog.Logger

	mu     sync.Mutex
	hosts  map[string]sample
	chains map[string]sample
	// wrong is what was found last.
	wrong bool
}

// sample is what one source said: by how much our clock was ahead of it, and
// when it said so.
type sample struct {
	ahead time.Duration
	at    time.Time
}

// New makes a Clock that compares now, and tells the logger when the clock turns
// wrong, and right again.
func New(now func() time.Time, logger *slog.Logger) *Clock {
	return &Clock{now: now, logger: logger, hosts: make(map[string]sample), chains: make(map[string]sample)}
}

// Date is told the time of day that a host has put on an answer just now.
func (c *Clock) Date(host string, date time.Time) { c.hear(c.hosts, host, date) }

// Block is told the time of a block (Unix seconds) that the endpoints of a chain
// agree on. It proves nothing but that our clock is behind: a chain may halt.
func (c *Clock) Block(chain string, unix int64) { c.hear(c.chains, chain, time.Unix(unix, 0)) }

func (c *Clock) hear(sources map[string]sample, name string, theirs time.Time) {
	c.mu.Lock()
	now := c.now()
	if _, known := sources[name]; !known && len(sources) >= maxSources {
		delete(sources, oldest(sources))
	}
	sources[name] = sample{now.Sub(theirs), now}
	c.mu.Unlock()
	c.Offset()
}

func oldest(sources map[string]sample) (name string) {
	var at time.Time
	for other, s := range sources {
		if name == "" || s.at.Before(at) {
			name, at = other, s.at
		}
	}
	return name
}

// Wrong reports whether the clock is off by more than a minute.
func (c *Clock) Wrong() bool { return c.Offset() != 0 }

// Offset is by how much the clock is ahead of the time of day, negative where it
// is behind; 0 while nothing proves that it is wrong. It does no I/O but for the
// log when that changes.
func (c *Clock) Offset() time.Duration {
	c.mu.Lock()
	now, limit := c.now(), tolerance
	if c.wrong {
		limit = rightBelow
	}
	hosts := said(c.hosts, now)
	offset := agreed(hosts, limit)
	if offset == 0 {
		offset = behind(said(c.chains, now), limit)
	}
	turned := c.wrong != (offset != 0)
	c.wrong = offset != 0
	c.mu.Unlock()
	switch {
	case turned && offset != 0:
		c.logger.Warn("the clock of this machine is wrong: while it is, payments that look expired are asked to come again; "+
			"set it, and keep it right by NTP", "seconds_ahead", Seconds(offset))
	case turned:
		c.logger.Info("the clock of this machine is right again")
	}
	return offset
}

// Seconds are the whole seconds of an offset: more than none for one that is not
// 0.
func Seconds(offset time.Duration) int64 { return int64(math.Round(offset.Seconds())) }
