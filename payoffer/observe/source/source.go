// Package source calls remote services repeatedly. It has an HTTP client, a polling loop and listeners.
package source

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Default sets the unset fields of a configuration. The random numbers spread pauses; the default logger discards.
func Default(now *func() time.Time, random *func() float64, logger **slog.Logger) {
	if *now == nil {
		*now = time.Now
	}
	if *random == nil {
		*random = rand.Float64
	}
	if *logger == nil {
		*logger = slog.New(slog.DiscardHandler)
	}
}

// Health says how well one rail is observed.
type Health struct {
	// Rail is the rail's name.
	Rail string
	// Source is where its receipts come from: "chain", "facilitator" (claims only),
	// "webhook", "provider" (its API, in addition to the webhook), or "operator".
	Source string
	// Blind: payments may be missing, so the sums are unknown, not zero.
	Blind bool
	// Partial: the sums are a lower bound.
	Partial bool
	// ObservedThrough is the last position that was read, such as "block 123", and At its
	// Unix time; 0 for never.
	ObservedThrough string
	At              int64
	// LastError is an error code of package observe, or empty.
	LastError string
	// Deliveries is the error code of the webhook's deliveries, which LastError may hide.
	Deliveries string
	// Refunds says that the source reports refunds, too.
	Refunds bool
	// OtherLinks are payment links that were paid and are not the rail's, separated by spaces.
	OtherLinks string
}

// Listeners are called when something has changed. The zero value is empty.
type Listeners struct {
	mu    sync.Mutex
	calls []*func()
}

// Listen registers call until stop returns; stop waits for a running call. A call must neither listen nor stop.
func (l *Listeners) Listen(call func()) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, &call)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.calls = slices.DeleteFunc(l.calls, func(c *func()) bool { return c == &call })
	}
}

// Notify calls all listeners, one after the other.
func (l *Listeners) Notify() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, call := range l.calls {
		(*call)()
	}
}
