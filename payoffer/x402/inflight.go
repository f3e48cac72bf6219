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

func (i *inFlight) begin() { i.count.Add(1) }
func (i *inFlight) end()   { i.count.Add(-1) }

// waitPoll is how often wait, which is called at a stop, checks again.
const waitPoll = 2 * time.Millisecond

// wait waits until the count is 0, or returns the error of ctx.
func (i *inFlight) wait(ctx context.Context) error {
	for i.count.Load() > 0 {
		select {
		case <-time.After(waitPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// keyLocks serializes requests with the same authorization, so that parallel copies cost one
// attempt and one facilitator call, and the deferred ones of one payer. It maps a key to a channel
// that is closed on unlock.
type keyLocks struct{ held sync.Map }

// lock waits for the key and reports whether it had to. unlock may be called more than once.
func (k *keyLocks) lock(ctx context.Context, key any) (unlock func(), waited bool, err error) {
	for mine := make(chan struct{}); ; waited = true {
		other, busy := k.held.LoadOrStore(key, mine)
		if !busy {
			return sync.OnceFunc(func() { k.held.Delete(key); close(mine) }), waited, nil
		}
		select {
		case <-other.(chan struct{}):
		case <-ctx.Done():
			return nil, waited, ctx.Err()
		}
	}
}

// maxRuns is how many deferred payments of one offer may run the application at a time.
const maxRuns = 256

// beginRun waits until no other deferred payment of the same payer runs the application. It returns the conflicting
// payment, which the other one may have become, or the answer.
func (s *Service) beginRun(ctx context.Context, p *payment, conflicting *ledger.Intent) (end func(), other *ledger.Intent, answer *Outcome) {
	payer := p.key().From
	if !p.proven {
		payer = "unproven " + payer // the sender may be a stranger, for whom the payer does not wait
	}
	unlock, waited, err := s.locks.lock(ctx, payer)
	if err != nil {
		return nil, nil, new(p.unavailable("request_canceled", retryOpen))
	}
	if waited {
		lookup, err := s.lookUp(ctx, p)
		switch {
		case err != nil:
			unlock()
			return nil, nil, new(p.ledgerUnavailable())
		case lookup.Known != nil: // another instance has taken it
			unlock()
			return nil, nil, new(s.replay(ctx, p, *lookup.Known))
		}
		conflicting = lookup.Conflicting
	}
	if s.runs.count.Add(1) > maxRuns {
		s.runs.end()
		unlock()
		return nil, nil, new(p.unavailable("too_many_payments", retrySoon))
	}
	return func() { s.runs.end(); unlock() }, conflicting, nil
}
