package x402

import (
	"context"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// inFlight counts the work under way, which outlives its requests. Unlike a
// sync.WaitGroup it may grow while somebody waits, and a wait that is given up
// leaves nothing behind.
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

// wait returns when none is under way, or the error of ctx.
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

// gate lets one request at a time decide about an authorization, so that
// copies that arrive together cost one attempt and one call of a facilitator.
// It holds the channels that those inside close when they leave, by key.
type gate struct{ inside sync.Map }

// enter waits for those ahead. leave may be called more than once.
func (g *gate) enter(ctx context.Context, key ledger.IntentKey) (leave func(), err error) {
	for mine := make(chan struct{}); ; {
		ahead, busy := g.inside.LoadOrStore(key, mine)
		if !busy {
			return sync.OnceFunc(func() { g.inside.Delete(key); close(mine) }), nil
		}
		select {
		case <-ahead.(chan struct{}):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
