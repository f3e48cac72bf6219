package web

import (
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// maxBodies are how many delivery bodies are read at once: for a rail, for one of its clients,
// and for the IPv6 /48 network of a client, which has 65,536 client networks. A signature is
// known to be false only at the end of the body.
var maxBodies = [...]int{256, 16, 32}

// openBodies counts the delivery bodies that are being read.
type openBodies struct {
	mu   sync.Mutex
	open map[string]int // by rail, by rail and client, and by rail and /48 network
}

// begin counts one more body until end is called; ok is false at a limit.
func (o *openBodies) begin(rail, client string) (end func(), ok bool) {
	keys := [len(maxBodies)]string{rail, rail + " " + x402.ClientNetwork(client, 64), rail + " /48 " + x402.ClientNetwork(client, 48)}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, key := range keys {
		if o.open[key] >= maxBodies[i] {
			return nil, false
		}
	}
	for _, key := range keys {
		o.open[key]++
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, key := range keys {
			if o.open[key]--; o.open[key] == 0 {
				delete(o.open, key)
			}
		}
	}, true
}
