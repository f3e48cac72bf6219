package x402

import (
	"context"
	"sync"
	"time"
)

// probeEvery is how often a healthy facilitator is asked what it supports.
const probeEvery = 5 * time.Minute

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
			_, reason := f.health.rest(s.now())
			if !f.settlesOn(network) {
				reason = reasonUnsupported
			}
			all = append(all, FacilitatorHealth{Host: f.Host(), Network: network, Healthy: reason == "", Reason: reason})
		}
	}
	return all
}

// settlesOn reports whether either version is supported on a network.
func (f *Facilitator) settlesOn(network string) bool {
	return f.health.supports(2, network) || f.health.supports(1, network)
}

// candidates are the facilitators to ask for a payment, in order: those whose
// circuit is closed, or else those whose pause is over. Without any, wait is
// when that may change.
func (s *Service) candidates(rail *Rail, version int) (ready []*Facilitator, wait time.Duration) {
	now, network := s.now(), rail.terms.accepted.Network
	var rested []*Facilitator
	wait = noPause
	for _, f := range rail.Facilitators {
		if !f.health.supports(version, network) {
			continue
		}
		left, reason := f.health.rest(now)
		switch {
		case reason == "":
			ready = append(ready, f)
		case left == 0:
			rested = append(rested, f)
		default:
			wait = min(wait, left)
		}
	}
	switch {
	case len(ready) > 0:
		return ready, 0
	case len(rested) > 0:
		return rested, 0
	case wait == noPause: // none supports it, which the next probe may change
		return nil, probeEvery
	default:
		return nil, wait
	}
}

// noPause is longer than any.
const noPause = 1<<63 - 1

// watchFacilitators keeps the health of every facilitator current until ctx
// ends.
func (s *Service) watchFacilitators(ctx context.Context) {
	networks := make(map[*Facilitator][]string)
	for _, rail := range s.rails {
		for _, f := range rail.Facilitators {
			networks[f] = append(networks[f], rail.USDC.Network.CAIP2())
		}
	}
	var work sync.WaitGroup
	for f, on := range networks {
		work.Go(func() { s.watch(ctx, f, on) })
	}
	work.Wait()
}

// watch looks at a facilitator at once, then rarely, and sooner while its
// circuit is open.
func (s *Service) watch(ctx context.Context, f *Facilitator, networks []string) {
	w := watched{service: s, facilitator: f, unsupported: make(map[string]bool)}
	for {
		f.probe(ctx)
		w.report(networks)
		for due := false; !due; {
			timer := time.NewTimer(f.health.untilProbe(s.now()))
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-f.health.opened:
				timer.Stop()
				w.report(networks)
			case <-timer.C:
				due = true
			}
		}
	}
}

// probe asks for /supported once.
func (f *Facilitator) probe(ctx context.Context) {
	kinds, err := f.supported(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		f.health.failedProbe(err.Error(), f.now())
	default:
		f.health.probed(kinds)
	}
}

// watched remembers what the log was told of a facilitator.
type watched struct {
	service     *Service
	facilitator *Facilitator
	open        bool
	unsupported map[string]bool
}

// report logs what has changed.
func (w *watched) report(networks []string) {
	f, log := w.facilitator, w.service.log
	left, reason := f.health.rest(w.service.now())
	switch {
	case reason != "" && !w.open:
		log.Warn("facilitator is left alone for a while", "facilitator", f.Host(), "error", reason, "pause", left.Round(time.Second).String())
	case reason == "" && w.open:
		log.Info("facilitator is asked again", "facilitator", f.Host())
	}
	w.open = reason != ""
	for _, network := range networks {
		if !f.settlesOn(network) && !w.unsupported[network] {
			w.unsupported[network] = true
			log.Warn("facilitator does not settle on the network and is skipped; choose another one", "facilitator", f.Host(), "network", network)
		}
	}
}
