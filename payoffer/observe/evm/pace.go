package evm

import (
	"context"
	"sync"
	"time"
)

const (
	// patience is how long a call waits for its turn.
	patience = 3 * time.Second
	// gapLeast is the pause between calls after the first refusal. It grows by half with each further one, up to gapMost.
	gapLeast = 100 * time.Millisecond
	gapMost  = time.Second
	// gapFades is the number of answers after which a gap has shrunk by the factor e. Below half of gapLeast it ends.
	gapFades = 256
	// pauseFirst is how long an endpoint is not called after a refusal. It doubles with each in a row, up to backoffMost.
	pauseFirst = time.Second
)

// pace adapts the rate of calls to an endpoint's refusals. The zero value does not limit.
type pace struct {
	mu               sync.Mutex
	gap              time.Duration
	next             time.Time
	refusals, inARow int
}

// await waits for the turn of a call. ok is false after patience. Give refusals to refuse.
func (p *pace) await(ctx context.Context) (refusals int, ok bool) {
	for until := time.Now().Add(patience); ; {
		p.mu.Lock()
		now := time.Now()
		at := now
		if p.next.After(now) {
			at = p.next
		}
		refusals = p.refusals
		if ok = !at.After(until); ok {
			p.next = at.Add(p.gap)
		}
		p.mu.Unlock()
		if !ok || at.Equal(now) {
			return refusals, ok
		}
		select {
		case <-ctx.Done():
			return refusals, false
		case <-time.After(at.Sub(now)):
		}
		if p.refused() == refusals {
			return refusals, true
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
	if p.gap -= p.gap / gapFades; p.gap < gapLeast/2 {
		p.gap = 0
	}
}

// refuse records a refusal and the pause that the endpoint asked for, 0 for none. refusals is what await returned, so
// that parallel calls are refused once.
func (p *pace) refuse(refusals int, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if refusals != p.refusals {
		return
	}
	pause := max(wait, min(pauseFirst<<min(p.inARow, 10), backoffMost))
	p.refusals++
	p.inARow++
	p.gap = min(max(p.gap+p.gap/2, gapLeast), gapMost)
	p.next = time.Now().Add(pause)
}
