package evm

import (
	"context"
	"maps"
)

// place is where an account stood when it came to rest.
type place struct {
	// covered is the block up to which the ledger holds everything for good, position
	// and anchor are those of the cursor, empty for none.
	covered          uint64
	position, anchor string
	// first is when the account was first watched, where that may still lower its
	// origin.
	first int64
}

// rest has the chain read together with others, if nothing is known of the account
// that may still change, and reports whether it did.
func (e *Observer) rest(ctx context.Context) bool {
	v, err := e.chain.lately(ctx)
	if err != nil {
		return false
	}
	p := e.newPass(v)
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
	at := p.place()
	if at != nil {
		e.chain.join(e, at)
	}
	return at != nil
}

// place is where the account comes to rest, nil while it does not.
func (p *pass) place() *place {
	if p.busy {
		return nil
	}
	at := &place{covered: p.covered, position: p.standing}
	if p.cursor != nil {
		at.anchor = p.cursor.Anchor
	} else {
		at.first = p.first
	}
	return at
}

// join has an account read together with the others at rest.
func (c *Chain) join(e *Observer, at *place) {
	e.loop.Heard() // that was for what has been read meanwhile
	c.mu.Lock()
	c.resting[e] = at
	if c.reports.trouble == "" {
		c.reports = e.reports // it was told of already
	}
	c.mu.Unlock()
	if e.Health().ObservedThrough == "" {
		c.loop.Wake() // it was not read yet
	}
}

// leave ends what join began.
func (c *Chain) leave(e *Observer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.resting, e)
}

// disturb has an account at rest read the chain for itself.
func (c *Chain) disturb(e *Observer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resting[e] == nil {
		return
	}
	delete(c.resting, e)
	e.reports = c.reports
	e.loop.Wake()
}

// atRest are the accounts at rest now.
func (c *Chain) atRest() map[*Observer]*place {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.resting)
}

// note tells accounts that are still at rest what came of a look.
func (c *Chain) note(at map[*Observer]*place, o outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e, place := range at {
		if c.resting[e] == place {
			e.take(o)
		}
	}
}
