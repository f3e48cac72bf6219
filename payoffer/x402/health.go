package x402

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

// health is what a facilitator's answers about what it supports have shown. Replies to payments do not count, because a payer can make a payment fail.
type health struct {
	mu sync.Mutex
	// networks are those on which it has to settle, by CAIP-2 id, and whether the log has it that it does not.
	networks map[string]bool
	// kinds is what it supports; nil while unknown.
	kinds []kind
	// down is the error code if the last answer was an error.
	down     string
	failures int
	next     time.Time
}

// expect adds the network of a rail and reports whether it is new.
func (h *health) expect(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, found := h.networks[name]; found {
		return false
	}
	h.networks[name] = false
	return true
}

// setKinds stores what is supported, if known. It returns whether that is new, and the networks that are newly unsupported.
func (h *health) setKinds(kinds []kind) (changed bool, missing []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if kinds != nil {
		changed = h.kinds == nil || !slices.Equal(h.kinds, kinds)
		h.kinds = kinds
	}
	for name, logged := range h.networks {
		if !logged && h.version(name) == 0 {
			h.networks[name] = true
			missing = append(missing, name)
		}
	}
	return changed, missing
}

// recordProbe stores the result of a probe, and returns the pause before the next one.
func (h *health) recordProbe(now time.Time, err error) (pause time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.down, h.failures = "", 0
		pause = source.Spread(probeEvery, rand.Float64())
	} else {
		h.down = err.Error()
		h.failures++
		pause = source.Backoff(h.failures, minPause, maxPause, rand.Float64())
	}
	h.next = now.Add(pause)
	return pause
}

// reset marks it as up, because nothing probes any more.
func (h *health) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down, h.failures = "", 0
}

func (h *health) failing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down != ""
}

// state returns why payments of these versions are not sent, a code or "", and when the next probe is due.
func (h *health) state(name string, versions ...int) (reason string, next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.ContainsFunc(versions, func(version int) bool { return h.supports(version, name) }) {
		return reasonUnsupported, h.next
	}
	return h.down, h.next
}

// supports reports whether a version is supported on a network, as far as is known. It needs the lock.
func (h *health) supports(version int, name string) bool {
	return h.kinds == nil || slices.ContainsFunc(h.kinds, func(k kind) bool { return k.X402Version == version && k.on(name) })
}

// version is the newest supported x402 version on a network, or 0. It needs the lock.
func (h *health) version(name string) int {
	for version := 2; version > 0; version-- {
		if h.supports(version, name) {
			return version
		}
	}
	return 0
}

const reasonUnsupported = "network_unsupported"

// ReasonUnfunded of ProbeOnce: the facilitator accepts payers without money. It is used all the same.
const ReasonUnfunded = "accepts_unfunded"

// FacilitatorHealth says whether a facilitator is used on a network.
type FacilitatorHealth struct {
	// Host is the facilitator's host with its port, if any; Network a CAIP-2 id.
	Host, Network string
	// Reason is why it is not used: "network_unsupported", "timeout", "unreachable", "bad_answer", "key_unusable", or
	// "status_" or "bad_answer_status_" with the HTTP status. It is empty if the facilitator is used.
	Reason  string
	Listing Listing
	// Rejection is the last reply of 4xx to a payment, without the refusals of a payment by verify: call, status, code and
	// text in one line, sanitized. It is empty after the next reply to a settlement.
	Rejection string
}

func (f FacilitatorHealth) Up() bool { return f.Reason == "" }

// Facilitators returns the health of each facilitator of each rail, in order of use. It never blocks.
func (s *Service) Facilitators() []FacilitatorHealth {
	var all []FacilitatorHealth
	for _, rail := range s.Rails {
		name := rail.USDC.Network.CAIP2()
		for _, f := range rail.Facilitators {
			rejection, _ := f.rejection.Load().(string)
			reason, _ := f.health.state(name, 2, 1)
			all = append(all, FacilitatorHealth{Host: f.Host(), Network: name, Reason: reason, Listing: s.listings.of(f.Host()), Rejection: rejection})
		}
	}
	return all
}

// isUnsupported reports whether no facilitator of the rail supports its network, by the last answer of each.
func (r Rail) isUnsupported() bool {
	return !slices.ContainsFunc(r.Facilitators, func(f *Facilitator) bool {
		reason, _ := f.health.state(r.USDC.Network.CAIP2(), 1, 2)
		return reason != reasonUnsupported
	})
}

// candidates are the facilitators to ask, in order: those that support the payment and whose last
// probe succeeded, and all if none supports the network, because it may have been quoted before. If there are none, retryAfter is the time to the next probe.
func (r *Rail) candidates(version int) (ready []*Facilitator, retryAfter time.Duration) {
	retryAfter = probeEvery
	unsupported := r.isUnsupported()
	for _, f := range r.Facilitators {
		reason, next := f.health.state(r.terms.accepted.Network, version)
		if reason == "" || unsupported {
			ready = append(ready, f)
		}
		retryAfter = min(retryAfter, max(next.Sub(f.now()), probeGap))
	}
	if len(ready) > 0 {
		return ready, 0
	}
	return nil, retryAfter
}
