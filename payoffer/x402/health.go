package x402

import (
	"slices"
	"sync"
	"time"
)

// health is what a facilitator's answers about what it supports have shown. Replies to payments do not count, because a
// payer can make a payment fail.
type health struct {
	mu sync.Mutex
	// networks are those on which it has to settle, by CAIP-2 id.
	networks map[string]bool
	// kinds is what it supports; nil while unknown.
	kinds []kind
	// down is the error code if the last answer was an error.
	down   string
	probed time.Time // when the last probe began
}

// expect adds the network of a rail.
func (f *Facilitator) expect(network string) {
	f.health.mu.Lock()
	defer f.health.mu.Unlock()
	if !f.health.networks[network] {
		f.health.networks[network] = true
		f.warnUnsupported(network)
	}
}

// warnUnsupported logs that a network is not supported, as far as is known. It needs the lock.
func (f *Facilitator) warnUnsupported(network string) {
	if newestVersion(f.health.kinds, network) == 0 {
		f.config.Logger.Warn("facilitator does not support the network", "facilitator", f.Host(), "network", network,
			"hint", "configure a facilitator that supports it")
	}
}

// recordProbe stores the result of a probe and reports whether another set is supported. kinds is nil if that is unknown.
func (f *Facilitator) recordProbe(began time.Time, kinds []kind, err error) (changed bool) {
	h := &f.health
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probed, h.down = began, ""
	if err != nil {
		h.down = err.Error()
	}
	if kinds == nil || h.kinds != nil && slices.Equal(h.kinds, kinds) {
		return false
	}
	h.kinds = kinds
	for network := range h.networks {
		f.warnUnsupported(network)
	}
	return true
}

// unusable returns why payments of these versions are not sent on a network: a code, or "".
func (f *Facilitator) unusable(network string, versions ...int) string {
	f.health.mu.Lock()
	defer f.health.mu.Unlock()
	if !slices.ContainsFunc(versions, func(version int) bool { return supports(f.health.kinds, version, network) }) {
		return reasonUnsupported
	}
	return f.health.down
}

// supports reports whether a version is supported on a network. What is unknown (nil) may be.
func supports(kinds []kind, version int, network string) bool {
	return kinds == nil || slices.ContainsFunc(kinds, func(k kind) bool { return k.X402Version == version && k.on(network) })
}

// newestVersion is the newest supported x402 version on a network, or 0.
func newestVersion(kinds []kind, network string) int {
	for version := 2; version > 0; version-- {
		if supports(kinds, version, network) {
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
			listed, _ := s.listings.Load(f.Host())
			listing, _ := listed.(Listing)
			all = append(all, FacilitatorHealth{Host: f.Host(), Network: name, Reason: f.unusable(name, 1, 2), Listing: listing, Rejection: rejection})
		}
	}
	return all
}

// isUnsupported reports whether no facilitator of the rail supports its network, by the last answer of each.
func (r Rail) isUnsupported() bool {
	return !slices.ContainsFunc(r.Facilitators, func(f *Facilitator) bool {
		return f.unusable(r.USDC.Network.CAIP2(), 1, 2) != reasonUnsupported
	})
}

// candidates are the facilitators to ask, in order: those that support the payment and whose last probe succeeded, and all
// if none supports the network, because it may have been quoted before.
func (r *Rail) candidates(version int) (ready []*Facilitator) {
	unsupported := r.isUnsupported()
	for _, f := range r.Facilitators {
		if unsupported || f.unusable(r.terms.accepted.Network, version) == "" {
			ready = append(ready, f)
		}
	}
	return ready
}
