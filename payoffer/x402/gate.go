package x402

import (
	"context"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// gate lets one request at a time decide about an authorization, so that
// copies that arrive together cost one attempt and one call of a facilitator.
type gate struct {
	mu   sync.Mutex
	busy map[ledger.IntentKey]chan struct{}
}

// enter waits for those ahead. leave may be called more than once.
func (g *gate) enter(ctx context.Context, key ledger.IntentKey) (leave func(), err error) {
	for {
		ahead, mine := g.take(key)
		if ahead == nil {
			return sync.OnceFunc(func() { g.give(key, mine) }), nil
		}
		select {
		case <-ahead:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (g *gate) take(key ledger.IntentKey) (ahead, mine chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ahead, busy := g.busy[key]; busy {
		return ahead, nil
	}
	mine = make(chan struct{})
	g.busy[key] = mine
	return nil, mine
}

func (g *gate) give(key ledger.IntentKey, mine chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.busy, key)
	close(mine)
}
