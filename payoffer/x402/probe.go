package x402

import (
	"context"
	"encoding/json"
	"net/http"
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
	if _, known := f.networks.LoadOrStore(network, false); !known {
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
	f.networks.Range(func(network, said any) bool {
		if said == false && !f.health.serves(network.(string)) {
			f.networks.Store(network, true)
			f.log.Warn("facilitator does not settle on the network and is skipped; choose another one", "facilitator", f.Host(), "network", network)
		}
		return true
	})
}

// kind is one entry of GET /supported.
type kind struct {
	X402Version int    `json:"x402Version"`
	Scheme      string `json:"scheme"`
	Network     string `json:"network"`
}

// anyEVM is how a facilitator names every EVM chain.
const anyEVM = "eip155:*"

// on reports whether payments by our scheme are taken on a network (CAIP-2).
func (k kind) on(network string) bool {
	return k.Scheme == schemeExact && (k.Network == anyEVM || isNetwork(k.Network, network))
}

// supported asks what a facilitator supports. nil without an error means that
// it answers and does not tell.
func (f *Facilitator) supported(ctx context.Context) ([]kind, error) {
	data, status, err := f.exchange(ctx, http.MethodGet, callSupported, nil)
	switch status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusTooManyRequests:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	kinds, ok := parseKinds(data)
	if !ok || status != http.StatusOK {
		return nil, badReply(status)
	}
	return kinds, nil
}

// parseKinds reads the kinds of a /supported reply. One that has another
// shape is that of a scheme which is not ours.
func parseKinds(data []byte) (kinds []kind, ok bool) {
	var reply struct {
		Kinds []json.RawMessage `json:"kinds"`
	}
	if json.Unmarshal(data, &reply) != nil || reply.Kinds == nil {
		return nil, false
	}
	kinds = make([]kind, 0, len(reply.Kinds))
	for _, raw := range reply.Kinds {
		var k kind
		if json.Unmarshal(raw, &k) == nil {
			kinds = append(kinds, k)
		}
	}
	return kinds, true
}
