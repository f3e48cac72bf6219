package x402

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// inFlight counts running work. Unlike a sync.WaitGroup it may grow during a wait, and a wait ends with its context.
type inFlight struct{ count atomic.Int64 }

func (f *inFlight) begin() { f.count.Add(1) }
func (f *inFlight) end()   { f.count.Add(-1) }

// waitPoll is how often wait, which is called at a stop, checks again.
const waitPoll = 2 * time.Millisecond

// wait waits until the count is 0, or returns the error of ctx.
func (f *inFlight) wait(ctx context.Context) error {
	for f.count.Load() > 0 {
		select {
		case <-time.After(waitPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
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
