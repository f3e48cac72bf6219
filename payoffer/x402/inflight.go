package x402

import (
	"context"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// inFlight counts running work. Unlike a sync.WaitGroup it may grow during a wait, and a wait ends with its context.
type inFlight struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // closed when count falls to 0
}

func (f *inFlight) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == 0 {
		f.idle = make(chan struct{})
	}
	f.count++
}

func (f *inFlight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count--
	if f.count == 0 {
		close(f.idle)
	}
}

// wait waits until the count is 0, or returns the error of ctx.
func (f *inFlight) wait(ctx context.Context) error {
	f.mu.Lock()
	count, idle := f.count, f.idle
	f.mu.Unlock()
	if count == 0 {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keyLocks serializes requests with the same authorization, so that parallel copies cost one
// attempt and one facilitator call. It maps a key to a channel that is closed on unlock.
type keyLocks struct{ held sync.Map }

// lock waits for the key. unlock may be called more than once.
func (l *keyLocks) lock(ctx context.Context, key ledger.IntentKey) (unlock func(), err error) {
	for mine := make(chan struct{}); ; {
		other, busy := l.held.LoadOrStore(key, mine)
		if !busy {
			return sync.OnceFunc(func() { l.held.Delete(key); close(mine) }), nil
		}
		select {
		case <-other.(chan struct{}):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
