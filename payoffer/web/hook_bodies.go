package web

import "sync"

// maxBodies and maxClientBodies limit how many delivery bodies are read at once, for a rail
// and for one of its clients: a signature is known to be false only at the end of the body.
const maxBodies, maxClientBodies = 256, 16

// openBodies counts the delivery bodies that are being read.
type openBodies struct {
	mu   sync.Mutex
	open map[string]int // by rail, and by rail and client
}

// begin counts one more body until end is called; ok is false at a limit.
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
