package source

import (
	"slices"
	"sync"
)

// Listeners are called when something has changed. The zero value has none.
type Listeners struct {
	mu    sync.Mutex
	calls []*func()
}

// Listen has call called from now on until stop returns; stop waits for a call
// under way. A call must neither listen nor stop.
func (l *Listeners) Listen(call func()) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, &call)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.calls = slices.DeleteFunc(l.calls, func(c *func()) bool { return c == &call })
	}
}

// Tell calls all, one after the other.
func (l *Listeners) Tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, call := range l.calls {
		(*call)()
	}
}
