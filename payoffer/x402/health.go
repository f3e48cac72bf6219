package x402

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

// health is what a facilitator's own probes have shown. What it answers to
// payments says nothing of it, for whoever pays may choose what makes it fail.
type health struct {
	mu sync.Mutex
	// expected are the networks (CAIP-2) on which it is to settle.
	expected map[string]*expectation
	// kinds is nil while it is not known what is supported.
	kinds []kind
	// down are the networks on which the last probe failed, with its code.
	down map[string]string
	// failures counts the probes that failed in a row.
	failures int
	// next is when the next probe is due.
	next time.Time
}

// expectation is one network on which a facilitator is to settle.
type expectation struct {
	// terms are those of the newest rail there, for probes to pay by.
	terms terms
	// told is true once the log has been told that it is not supported.
	told bool
	// unfunded is true if the last answer to a probe was a yes, warned once that was logged.
	unfunded, warned bool
}

// target is what a probe pays by: the terms of a rail in an x402 version.
type target struct {
	terms
	version int
}

// expect notes that payments by a rail's terms are to be settled, and reports
// whether that is news.
func (h *health) expect(t terms) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, found := h.expected[t.accepted.Network]
	if !found {
		known = new(expectation)
		h.expected[t.accepted.Network] = known
	}
	known.terms = t
	return !found
}

// targets are the expected networks that are supported, as far as is known, in
// their order.
func (h *health) targets() (all []target) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, network := range slices.Sorted(maps.Keys(h.expected)) {
		if version := h.version(network); version != 0 {
			all = append(all, target{h.expected[network].terms, version})
		}
	}
	return all
}

// learn notes what is supported; nil tells nothing new. It returns the expected
// networks of which it is said for the first time that they are not.
func (h *health) learn(kinds []kind) (missing []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if kinds != nil {
		h.kinds = kinds
	}
	for network, e := range h.expected {
		if !e.told && h.version(network) == 0 {
			e.told = true
			missing = append(missing, network)
		}
	}
	return missing
}

// verified notes the answer to a probe on an expected network, and reports whether
// it is the first yes.
func (h *health) verified(network string, yes bool) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.expected[network]
	first = yes && !e.warned
	e.unfunded, e.warned = yes, yes || e.warned
	return first
}

// reason is FacilitatorHealth.Reason of an expected network.
func (h *health) reason(network string) string {
	reason, _ := h.state(network, 2, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if reason == "" && h.expected[network].unfunded {
		return ReasonUnfunded
	}
	return reason
}

// probed notes the end of a probe, with the networks on which it failed, and
// returns the pause to the next one.
func (h *health) probed(now time.Time, down map[string]string) (pause time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = down
	if len(down) == 0 {
		h.failures = 0
		pause = source.Spread(probeEvery, rand.Float64())
	} else {
		h.failures++
		pause = source.Backoff(h.failures, pauseFirst, pauseMost, rand.Float64())
	}
	h.next = now.Add(pause)
	return pause
}

// forget makes up of down: nobody looks any more, so that nobody would find out
// that it is well again.
func (h *health) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down, h.failures = nil, 0
}

// failing reports whether the last probe failed anywhere.
func (h *health) failing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.down) > 0
}

// state is what speaks against sending a payment of an x402 version on a network
// (CAIP-2), a code or empty, and when the next probe is due.
func (h *health) state(network string, versions ...int) (reason string, next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.ContainsFunc(versions, func(version int) bool { return h.supports(version, network) }) {
		return reasonUnsupported, h.next
	}
	return h.down[network], h.next
}

// supports reports whether payments of an x402 version on a network are taken,
// as far as is known. It needs the lock.
func (h *health) supports(version int, network string) bool {
	return h.kinds == nil || slices.ContainsFunc(h.kinds, func(k kind) bool { return k.X402Version == version && k.on(network) })
}

// version is the newest x402 version in which payments on a network are taken, 0
// for none. It needs the lock.
func (h *health) version(network string) int {
	for version := 2; version > 0; version-- {
		if h.supports(version, network) {
			return version
		}
	}
	return 0
}

// reasonUnsupported says that a facilitator does not settle on a network.
const reasonUnsupported = "network_unsupported"

// ReasonUnfunded says that a facilitator accepts payers without money. It is used
// all the same.
const ReasonUnfunded = "accepts_unfunded"

// FacilitatorHealth says whether a facilitator is asked to settle payments on
// a network.
type FacilitatorHealth struct {
	// Host is the facilitator's host with its port, if any; Network a CAIP-2 id.
	Host, Network string
	// Reason is a code, empty while nothing speaks against it: "network_unsupported",
	// "timeout", "unreachable", "bad_answer", "status_" or
	// "bad_answer_status_" with the HTTP status, or "key_unusable"; or
	// ReasonUnfunded, with which it is used.
	Reason string
	// Listing is what it said of the offer's payable URL.
	Listing Listing
}

// Up reports whether the facilitator is asked to settle payments.
func (f FacilitatorHealth) Up() bool { return f.Reason == "" || f.Reason == ReasonUnfunded }

// Facilitators says how each facilitator of each rail is, in the order of
// their use. It never blocks.
func (s *Service) Facilitators() []FacilitatorHealth {
	var all []FacilitatorHealth
	for _, rail := range s.Rails {
		network := rail.USDC.Network.CAIP2()
		for _, f := range rail.Facilitators {
			all = append(all, FacilitatorHealth{Host: f.Host(), Network: network, Reason: f.health.reason(network), Listing: s.listings.of(f.Host())})
		}
	}
	return all
}

// candidates are the facilitators to ask for a payment, in order: those that
// support it and whose last probe went well. Without any, wait is when that may
// change: after the next probe.
func (r *Rail) candidates(version int) (ready []*Facilitator, wait time.Duration) {
	wait = probeEvery
	for _, f := range r.Facilitators {
		reason, next := f.health.state(r.terms.accepted.Network, version)
		if reason == "" {
			ready = append(ready, f)
		}
		wait = min(wait, max(next.Sub(f.now()), probeGap))
	}
	if len(ready) > 0 {
		return ready, 0
	}
	return nil, wait
}
