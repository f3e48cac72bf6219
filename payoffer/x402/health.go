package x402

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// openAfter is how many calls of one kind may fail in a row before a
	// facilitator is left alone for a while.
	openAfter = 5
	// pauseFirst and pauseMost bound that while, which doubles each time.
	pauseFirst = 5 * time.Second
	pauseMost  = 5 * time.Minute
)

// The calls of a facilitator, by their paths.
const (
	callVerify    = "verify"
	callSettle    = "settle"
	callSupported = "supported"
)

// health is what is known of one facilitator: a circuit that opens when calls
// fail, and what it says that it supports. Each kind of call is counted apart,
// for one that verifies well may still settle nothing.
type health struct {
	now func() time.Time
	mu  sync.Mutex
	// failures are those in a row, by call. The circuit is open while one of
	// them has reached openAfter.
	failures map[string]int
	// reason is the code of the last failure while the circuit is open.
	reason string
	// openings counts the pauses since everything was well.
	openings int
	// retryAt ends the pause while the circuit is open.
	retryAt time.Time
	// trial is true while one request tries what an open circuit is like now.
	trial bool
	// replied is true when a payment got a usable reply since the last probe.
	replied bool
	// kinds is nil while it is not known what is supported.
	kinds []kind
	// changed wakes whoever waits for the next probe.
	changed chan struct{}
}

func newHealth(now func() time.Time) *health {
	return &health{now: now, failures: make(map[string]int), changed: make(chan struct{}, 1)}
}

// ended notes how a call of a payment ended: with a usable reply, whatever it
// said, or with the error of none.
func (h *health) ended(ctx context.Context, call string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.replied = true
		delete(h.failures, call)
		delete(h.failures, callSupported) // what was paid for counts more than the probe
		h.recovered()
	case ctx.Err() != nil:
		// The caller has left, which says nothing of the facilitator.
	case h.isOpen() && !h.trial:
		// It was under way when the circuit opened.
	default:
		h.failures[call]++
		if h.isOpen() {
			h.open(err.Error())
		}
	}
}

// probed notes a reply of /supported; nil kinds tell nothing new. It closes the
// circuit, on trial: the next failure of the call that had opened it opens it
// again.
func (h *health) probed(kinds []kind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.replied = false
	if kinds != nil {
		h.kinds = kinds
	}
	delete(h.failures, callSupported)
	for call, count := range h.failures {
		h.failures[call] = min(count, openAfter-1)
	}
	h.recovered()
}

// failedProbe notes that /supported got no reply, which opens the circuit
// unless payments go well all the same.
func (h *health) failedProbe(code string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures[callSupported]++
	if !h.replied {
		h.failures[callSupported] = max(h.failures[callSupported], openAfter)
	}
	h.replied = false
	if h.isOpen() {
		h.open(code)
	}
}

// isOpen needs the lock.
func (h *health) isOpen() bool {
	for _, count := range h.failures {
		if count >= openAfter {
			return true
		}
	}
	return false
}

// open starts a pause. It needs the lock.
func (h *health) open(code string) {
	h.reason, h.trial = code, false
	h.openings++
	h.retryAt = h.now().Add(backOff(h.openings))
	h.wake()
}

// wake has Run look at what has changed.
func (h *health) wake() {
	select {
	case h.changed <- struct{}{}:
	default: // it has been told already
	}
}

// recovered forgets what is over. It needs the lock.
func (h *health) recovered() {
	if h.isOpen() {
		return
	}
	h.reason, h.trial = "", false
	if len(h.failures) == 0 {
		h.openings = 0
	}
}

// rest is how long an open circuit stays so; 0 where it may be tried. reason
// is empty for a closed one.
func (h *health) rest() (left time.Duration, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isOpen() {
		return 0, ""
	}
	return max(0, h.retryAt.Sub(h.now())), h.reason
}

// admit reports whether one payment may be sent. An open circuit whose pause
// is over takes one; the others wait for as long as that may last.
func (h *health) admit(patience time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	switch {
	case !h.isOpen():
		return true
	case now.Before(h.retryAt):
		return false
	}
	h.trial, h.retryAt = true, now.Add(patience)
	return true
}

// untilProbe is the time to the next look at /supported.
func (h *health) untilProbe() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.isOpen():
		return max(0, h.retryAt.Sub(h.now()))
	case h.failures[callSupported] > 0:
		return backOff(h.failures[callSupported])
	default:
		return source.Spread(probeEvery, rand.Float64())
	}
}

// supports reports whether payments of an x402 version on a network (CAIP-2)
// are taken, as far as is known.
func (h *health) supports(version int, network string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kinds == nil || slices.ContainsFunc(h.kinds, func(k kind) bool { return k.X402Version == version && k.on(network) })
}

// serves reports whether either version is supported on a network.
func (h *health) serves(network string) bool {
	return h.supports(2, network) || h.supports(1, network)
}

// backOff is the pause after so many failures, at least 1.
func backOff(failures int) time.Duration {
	return source.Backoff(failures, pauseFirst, pauseMost, rand.Float64())
}

// reasonUnsupported says that a facilitator does not settle on a network.
const reasonUnsupported = "network_unsupported"

// FacilitatorHealth says whether a facilitator is asked to settle payments on
// a network.
type FacilitatorHealth struct {
	// Host is the facilitator's host with its port, if any; Network a CAIP-2 id.
	Host, Network string
	// Reason is a code, empty while nothing speaks against it: "network_unsupported",
	// "timeout", "unreachable", "bad_answer", "status_" or
	// "bad_answer_status_" with the HTTP status, or "key_unusable".
	Reason string
}

// Facilitators says how each facilitator of each rail is, in the order of
// their use. It never blocks.
func (s *Service) Facilitators() []FacilitatorHealth {
	var all []FacilitatorHealth
	for _, rail := range s.Rails {
		network := rail.USDC.Network.CAIP2()
		for _, f := range rail.Facilitators {
			_, reason := f.health.rest()
			if !f.health.serves(network) {
				reason = reasonUnsupported
			}
			all = append(all, FacilitatorHealth{Host: f.Host(), Network: network, Reason: reason})
		}
	}
	return all
}

// candidates are the facilitators to ask for a payment, in order: those whose
// circuit is closed, or else those whose pause is over. Without any, wait is
// when that may change.
func (r *Rail) candidates(version int) (ready []*Facilitator, wait time.Duration) {
	var rested []*Facilitator
	for _, f := range r.Facilitators {
		if !f.health.supports(version, r.terms.accepted.Network) {
			continue
		}
		left, reason := f.health.rest()
		switch {
		case reason == "":
			ready = append(ready, f)
		case left == 0:
			rested = append(rested, f)
		case wait == 0 || left < wait:
			wait = left
		}
	}
	if len(ready) == 0 {
		ready = rested
	}
	if len(ready) > 0 {
		return ready, 0
	}
	return nil, cmp.Or(wait, probeEvery) // the next probe may find one that supports it
}
