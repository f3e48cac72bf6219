package x402

import (
	"context"
	"time"
)

// probeEvery is how often a healthy facilitator is asked what it supports.
const probeEvery = 5 * time.Minute

// Run keeps the facilitator's health current until ctx ends, and logs what
// changes: it probes at once, then rarely, and sooner while the circuit is
// open. It may run again after it returned, but not twice at a time.
func (f *Facilitator) Run(ctx context.Context) {
	for {
		f.probe(ctx)
		f.report()
		for due := false; !due; {
			select {
			case <-ctx.Done():
				return
			case <-f.health.changed:
				f.report()
			case <-time.After(f.health.untilProbe()):
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
		f.health.failedProbe(err.Error())
	default:
		f.health.probed(kinds)
	}
}

// expect says that payments on a network (CAIP-2) are to be settled here. Run
// warns once when the facilitator does not do that.
func (f *Facilitator) expect(network string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.networks[network]; !known {
		f.networks[network] = false
		f.health.wake()
	}
}

// report logs what has changed.
func (f *Facilitator) report() {
	left, reason := f.health.rest()
	switch {
	case reason != "" && !f.rests:
		f.log.Warn("facilitator is left alone for a while", "facilitator", f.Host(), "error", reason, "pause", left.Round(time.Second).String())
	case reason == "" && f.rests:
		f.log.Info("facilitator is asked again", "facilitator", f.Host())
	}
	f.rests = reason != ""
	f.mu.Lock()
	defer f.mu.Unlock()
	for network, said := range f.networks {
		if !said && !f.health.serves(network) {
			f.networks[network] = true
			f.log.Warn("facilitator does not settle on the network and is skipped; choose another one", "facilitator", f.Host(), "network", network)
		}
	}
}
