package web

import (
	"slices"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// maxBodies are how many delivery bodies are read at once: for a rail, for one of its clients,
// and for the IPv6 /48 network of a client, which has 65,536 client networks. A signature is
// known to be false only at the end of the body.
var maxBodies = [...]int{256, 16, 32}

// openBodies are the delivery bodies that are being read.
type openBodies struct {
	mu   sync.Mutex
	open map[string][]*openBody // by rail, by rail and client, and by rail and /48 network; the oldest first
}

// openBody is a body that is being read. drop ends that.
type openBody struct{ drop func() }

// begin adds a body until end is called; ok is false if its client has too many. If its rail has, the oldest body makes room: a
// provider sends its bodies at once, and who sends slowly must not keep them out.
func (o *openBodies) begin(rail, client string, drop func()) (end func(), ok bool) {
	keys := [len(maxBodies)]string{rail, rail + " " + x402.ClientNetwork(client, 64), rail + " /48 " + x402.ClientNetwork(client, 48)}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, key := range keys[1:] {
		if len(o.open[key]) >= maxBodies[i+1] {
			return nil, false
		}
	}
	mine := &openBody{drop}
	if bodies := o.open[rail]; len(bodies) >= maxBodies[0] {
		bodies[0].drop()
		o.open[rail] = bodies[1:]
	}
	for _, key := range keys {
		o.open[key] = append(o.open[key], mine)
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, key := range keys {
			if o.open[key] = slices.DeleteFunc(o.open[key], func(b *openBody) bool { return b == mine }); len(o.open[key]) == 0 {
				delete(o.open, key)
			}
		}
	}, true
}
