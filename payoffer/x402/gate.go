package x402

import (
	"context"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

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
