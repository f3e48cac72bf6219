package x402

import (
	"math/rand/v2"
	"sync"
	"time"
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
	mu sync.Mutex
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
	// answered is true when a payment got an answer since the last probe.
	answered bool
	// kinds is nil while it is not known what is supported.
	kinds []kind
	// opened wakes whoever waits for the next probe.
	opened chan struct{}
}

func newHealth() *health {
	return &health{failures: make(map[string]int), opened: make(chan struct{}, 1)}
}

// answeredCall notes a usable answer, whatever it said.
func (h *health) answeredCall(call string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answered = true
	delete(h.failures, call)
	delete(h.failures, callSupported) // what was paid for counts more than the probe
	h.settleDown()
}

// failedCall notes that a call of a payment got no usable answer.
func (h *health) failedCall(call, code string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isOpen() && !h.trial {
		return // it was under way when the circuit opened
	}
	h.failures[call]++
	if h.isOpen() {
		h.open(code, now)
	}
}

// probed notes an answer of /supported; nil kinds tell nothing new. It closes the circuit, on trial: the
// next failure of the call that had opened it opens it again.
func (h *health) probed(kinds []kind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answered = false
	if kinds != nil {
		h.kinds = kinds
	}
	delete(h.failures, callSupported)
	for call, count := range h.failures {
		h.failures[call] = min(count, openAfter-1)
	}
	h.settleDown()
}

// failedProbe notes that /supported got no answer, which opens the circuit
// unless payments go well all the same.
func (h *health) failedProbe(code string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures[callSupported]++
	if !h.answered {
		h.failures[callSupported] = max(h.failures[callSupported], openAfter)
	}
	h.answered = false
	if h.isOpen() {
		h.open(code, now)
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
func (h *health) open(code string, now time.Time) {
	h.reason, h.trial = code, false
	h.retryAt = now.Add(spread(backOff(h.openings)))
	h.openings++
	select {
	case h.opened <- struct{}{}:
	default: // it has been told already
	}
}

// settleDown forgets what is over. It needs the lock.
func (h *health) settleDown() {
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
func (h *health) rest(now time.Time) (left time.Duration, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isOpen() {
		return 0, ""
	}
	return max(0, h.retryAt.Sub(now)), h.reason
}

// admit reports whether one payment may be sent. An open circuit whose pause
// is over takes one; the others wait for as long as that may last.
func (h *health) admit(now time.Time, patience time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
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
func (h *health) untilProbe(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.isOpen():
		return max(0, h.retryAt.Sub(now))
	case h.failures[callSupported] > 0:
		return spread(backOff(h.failures[callSupported] - 1))
	default:
		return spread(probeEvery)
	}
}

// supports reports whether payments of an x402 version on a network (CAIP-2)
// are taken, as far as is known.
func (h *health) supports(version int, network string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kinds == nil {
		return true
	}
	for _, k := range h.kinds {
		if k.X402Version == version && k.on(network) {
			return true
		}
	}
	return false
}

// backOff is the pause after so many before it.
func backOff(before int) time.Duration {
	return min(pauseFirst<<min(before, 10), pauseMost)
}

// spread varies a pause by a fifth to either side, so that instances do not
// call in step.
func spread(d time.Duration) time.Duration { return d*4/5 + rand.N(d*2/5) }
