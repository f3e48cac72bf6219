package evm

import (
	"context"
	"sync"
	"time"
)

const (
	// patience is how long a call waits for its turn.
	patience = 3 * time.Second
	// gapLeast is the time between two calls once an endpoint has asked for fewer
	// of them, half as much again each time that it asks, and gapMost the longest.
	gapLeast = 100 * time.Millisecond
	gapMost  = time.Second
	// gapFades is after how many answers a gap is e times smaller. Below half of
	// gapLeast there is none.
	gapFades = 256
	// pauseFirst is how long an endpoint that asks for fewer calls is not called
	// at all, twice as long each time in a row, up to restMost.
	pauseFirst = time.Second
)

// pace keeps the calls to one endpoint as rare as it wants them: nobody knows how
// many it takes before it has refused one. The zero value takes any number.
type pace struct {
	mu   sync.Mutex
	gap  time.Duration
	next time.Time
	// refusals are all that there were, and inARow those since the last answer.
	refusals, inARow int
}

// turn waits for the turn of a call. ok is false where that takes longer than
// anybody waits. refusals is for done.
func (p *pace) turn(ctx context.Context) (refusals int, ok bool) {
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

// answered tells that a call was answered.
func (p *pace) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inARow = 0
	if p.gap -= p.gap / gapFades; p.gap < gapLeast/2 {
		p.gap = 0
	}
}

// refuse tells that a call was refused, and for how long no other one is wanted;
// 0 where that was not said. refusals is what turn returned: calls that were under
// way together are refused once.
func (p *pace) refuse(refusals int, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if refusals != p.refusals {
		return
	}
	pause := max(wait, min(pauseFirst<<min(p.inARow, 10), restMost))
	p.refusals++
	p.inARow++
	p.gap = min(max(p.gap+p.gap/2, gapLeast), gapMost)
	p.next = time.Now().Add(pause)
}
