package evm

import (
	"context"
	"maps"
)

// idleState is the state of an account when it became idle.
type idleState struct {
	// covered is the block up to which everything is recorded and final. position and anchor are those of the cursor,
	// or empty.
	covered          uint64
	position, anchor string
	// first is when the account was first watched, if that can still lower its origin.
	first int64
}

// becomeIdle lets the Chain read for the account, if nothing is known of it that can still change.
func (e *Observer) becomeIdle(ctx context.Context) bool {
	v, err := e.chain.recentView(ctx)
	if err != nil {
		return false
	}
	p := e.newCycle(v)
	if p.anchor(ctx) != nil {
		return false
	}
	rows, err := p.unfinal(ctx)
	if err != nil || len(rows) > 0 {
		return false
	}
	if !e.config.FollowOnly {
		origin, err := p.origin(ctx)
		if err != nil {
			return false
		}
		p.covered = max(p.covered, origin)
	}
	e.chain.addIdle(e, p.idleState())
	return true
}

func (p *cycle) idleState() *idleState {
	at := &idleState{covered: p.covered, position: p.storedPosition}
	if p.cursor != nil {
		at.anchor = p.cursor.Anchor
	} else {
		at.first = p.first
	}
	return at
}

func (c *Chain) addIdle(e *Observer, at *idleState) {
	e.loop.CancelWake() // this cycle has read it
	c.mu.Lock()
	c.idle[e] = at
	if c.problems.last == "" {
		c.problems = e.problems // it is already logged
	}
	c.mu.Unlock()
	if e.Health().ObservedThrough == "" {
		c.loop.Wake() // this account was not read yet
	}
}

func (c *Chain) removeIdle(e *Observer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.idle, e)
}

// wake makes an idle account read for itself.
func (c *Chain) wake(e *Observer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle[e] == nil {
		return
	}
	delete(c.idle, e)
	e.problems = c.problems
	e.loop.Wake()
}

func (c *Chain) idleAccounts() map[*Observer]*idleState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.idle)
}

// applyToIdle applies an outcome to the accounts that are still idle.
func (c *Chain) applyToIdle(at map[*Observer]*idleState, o outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e, state := range at {
		if c.idle[e] == state {
			e.applyOutcome(o)
		}
	}
}
