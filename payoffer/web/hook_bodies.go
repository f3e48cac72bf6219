package web

import "sync"

const (
	// maxBodies and maxClientBodies bound how many bodies of deliveries are read at
	// once for a rail, of all clients and of one: of a delivery with a signature it
	// is known only at its end that the provider did not send it.
	maxBodies, maxClientBodies = 256, 16
)

// openBodies counts the bodies of deliveries that are being read. A rail has places
// of its own: some shops do not repeat what was refused, and theirs are taken by
// who shows their secret alone.
type openBodies struct {
	mu   sync.Mutex
	open map[string]int // by rail, and by rail and client
}

// begin takes a place; ok is false where none is free. A place is given back by end.
func (o *openBodies) begin(rail, client string) (end func(), ok bool) {
	one := rail + " " + client
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[rail] >= maxBodies || o.open[one] >= maxClientBodies {
		return nil, false
	}
	o.open[rail]++
	o.open[one]++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.open[rail]--
		if o.open[one]--; o.open[one] == 0 {
			delete(o.open, one)
		}
	}, true
}
