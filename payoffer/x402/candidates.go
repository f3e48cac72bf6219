package x402

import (
	"cmp"
	"time"
)

// reasonUnsupported says that a facilitator does not settle on a network.
const reasonUnsupported = "network_unsupported"

// FacilitatorHealth says whether a facilitator is asked to settle payments on
// a network.
type FacilitatorHealth struct {
	// Host is the facilitator's host with its port, if any; Network a CAIP-2 id.
	Host, Network string
	// Healthy is true until something speaks against it.
	Healthy bool
	// Reason is a code, empty for a healthy one: "network_unsupported",
	// "timeout", "unreachable", "bad_answer", "status_" or
	// "bad_answer_status_" with the HTTP status, or "key_unusable".
	Reason string
}

// Facilitators says how each facilitator of each rail is, in the order of
// their use. It never blocks.
func (s *Service) Facilitators() []FacilitatorHealth {
	var all []FacilitatorHealth
	for _, rail := range s.rails {
		network := rail.USDC.Network.CAIP2()
		for _, f := range rail.Facilitators {
			_, reason := f.health.rest()
			if !f.health.serves(network) {
				reason = reasonUnsupported
			}
			all = append(all, FacilitatorHealth{Host: f.Host(), Network: network, Healthy: reason == "", Reason: reason})
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
