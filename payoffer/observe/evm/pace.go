package evm

import (
	"context"
	"sync"
	"time"
)

const (
	// patience is how long a call waits for the end of a pause.
	patience = 3 * time.Second
	// pauseFirst is how long an endpoint is not called after a refusal. It doubles with each in a row, up to backoffMost.
	pauseFirst = time.Second
)

// pace pauses the calls to an endpoint after its refusals.
type pace struct {
	mu               sync.Mutex
	next             time.Time
	refusals, inARow int
}

// await waits for the end of a pause. ok is false after patience. Give refusals to refuse.
func (p *pace) await(ctx context.Context) (refusals int, ok bool) {
	for until := time.Now().Add(patience); ; {
		p.mu.Lock()
		next := p.next
		refusals = p.refusals
		p.mu.Unlock()
		if time.Until(next) <= 0 {
			return refusals, true
		}
		if next.After(until) {
			return refusals, false
		}
		select {
		case <-ctx.Done():
			return refusals, false
		case <-time.After(time.Until(next)):
		}
	}
}

func (p *pace) refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusals
}

func (p *pace) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inARow = 0
}

// refuse records a refusal and the pause that the endpoint asked for, 0 for none. refusals is what await returned, so
// that parallel calls are refused once.
func (p *pace) refuse(refusals int, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if refusals != p.refusals {
		return
	}
	p.next = time.Now().Add(max(wait, min(pauseFirst<<min(p.inARow, 10), backoffMost)))
	p.refusals++
	p.inARow++
}
