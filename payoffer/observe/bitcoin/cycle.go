package bitcoin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// maxWork is how long a cycle reads the reader, and patience how long it reads each other endpoint.
	maxWork, patience = 5 * time.Minute, time.Minute
	// recordAtOnce bounds the payments of one ledger transaction, which blocks all other rails.
	recordAtOnce = 200
)

// cycle is one poll. It reads through one endpoint, and through a witness, which is a live endpoint on another host. If
// these two contradict each other, it asks the next one.
type cycle struct {
	*Observer
	state
	now time.Time
	// lookUps are the receipts to look up if no list has them.
	lookUps []ledger.Receipt
	// readings are those that succeeded, the reader's first.
	readings []*reading
	tried    map[*endpoint]bool
	hosts    map[string]bool // that responded
	// problem is the first one, or that an endpoint shows another block at the height of a final one.
	problem error

	conclusion
}

// Poll runs one cycle. The error is an *observe.Error: the first problem that prevented a complete reading. Cycles do not
// overlap.
func (o *Observer) Poll(ctx context.Context) error {
	o.polling.Lock()
	defer o.polling.Unlock()
	o.busy = false
	o.turn++
	c, err := o.poll(ctx)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return o.updateHealth(c, err)
}

func (o *Observer) poll(ctx context.Context) (*cycle, error) {
	if err := o.storeQuotes(ctx); err != nil {
		return nil, err
	}
	s, err := o.loadState(ctx)
	if err != nil {
		return nil, err
	}
	c := &cycle{Observer: o, state: s, now: o.config.Now(), tried: make(map[*endpoint]bool), hosts: make(map[string]bool)}
	err = c.read(ctx)
	if o.busy = len(s.rows) > 0 || len(c.changes) > 0; err == nil {
		err = c.commit(ctx)
	}
	if err != nil {
		return nil, err
	}
	c.probe(ctx)
	return c, ctx.Err()
}

// read reads the reader and its witness, and further endpoints while these two contradict each other.
func (c *cycle) read(ctx context.Context) error {
	for {
		r := c.readNext(ctx)
		if len(c.readings) == 0 {
			return c.problem
		}
		if err := c.conclude(ctx); err != nil {
			return err
		}
		if r == nil || c.settled {
			return ctx.Err()
		}
	}
}

// readNext reads the next live endpoint, in the operator's order, on a host that was not read yet. The reader can also be
// one that is not live. It returns nil if there is none.
func (c *cycle) readNext(ctx context.Context) *reading {
	for _, live := range []bool{true, false} {
		for _, e := range c.endpoints {
			if c.tried[e] || c.hosts[e.host()] || live != e.witness.IsLive(c.now) || !live && len(c.readings) > 0 {
				continue
			}
			if r := c.open(ctx, e); r != nil {
				c.readings = append(c.readings, r)
				return r
			}
		}
	}
	return nil
}

// open reads an endpoint, if it needs no pause. It returns nil if that fails.
func (c *cycle) open(ctx context.Context, e *endpoint) *reading {
	if c.tried[e] = true; e.due.After(c.now) {
		c.addProblem(e.last)
		return nil
	}
	limit := patience
	if len(c.readings) == 0 {
		limit = maxWork
	}
	limited, stop := context.WithTimeout(ctx, limit)
	defer stop()
	r := &reading{endpoint: e, cycle: c}
	err := r.readStable(limited)
	if ctx.Err() != nil {
		c.problem = ctx.Err()
		return nil
	}
	if err != nil && limited.Err() != nil {
		err = e.fail(observe.ErrUnreachable)
	}
	if e.recordOutcome(err); err != nil {
		c.addProblem(err)
		return nil
	}
	c.hosts[e.host()], e.tip = true, r.tip
	return r
}

func (c *cycle) addProblem(err error) {
	if c.problem == nil || source.Code(err) == observe.ErrHistory && source.Code(c.problem) != observe.ErrHistory {
		c.problem = err
	}
}

// awaits reports whether payments wait for another host than the reader's.
func (c *cycle) awaits() bool {
	return slices.ContainsFunc(c.endpoints, func(e *endpoint) bool {
		return e.witness.IsLive(c.now) && e.host() != c.readings[0].host()
	})
}

// disagree returns the contradiction of readings.
func disagree(readings ...*reading) *observe.Error {
	var names []string
	for _, r := range readings {
		names = append(names, r.host())
	}
	slices.Sort(names)
	return &observe.Error{Code: observe.ErrDisagree, Host: strings.Join(names, ", ")}
}

// probe reads the endpoints that failed after everything is recorded. One that answers is live again.
func (c *cycle) probe(ctx context.Context) {
	for _, e := range c.endpoints {
		if !c.tried[e] && e.failures > 0 {
			c.open(ctx, e)
		}
	}
}

// commit records the changes, and the cursor last.
func (c *cycle) commit(ctx context.Context) error {
	slices.SortFunc(c.changes, func(a, b ledger.Observation) int { // as the money moved
		return cmp.Or(cmp.Compare(a.OccurredAt, b.OccurredAt), cmp.Compare(a.ExternalID, b.ExternalID))
	})
	for part := range slices.Chunk(c.changes, recordAtOnce) {
		if err := c.record(ctx, nil, part); err != nil {
			return err
		}
	}
	maps.DeleteFunc(c.absent, func(id string, _ time.Time) bool { return c.byTransaction[id] == nil })
	if c.reason == nil {
		clear(c.logged)
	}
	if c.undecided = !c.settled; c.next.anchor == "" {
		return nil
	}
	if err := c.record(ctx, c.cursor(), nil); err != nil || c.waits {
		return err
	}
	c.swept++
	return c.publish(c.next.Index)
}

func (o *Observer) record(ctx context.Context, cursor *ledger.Cursor, observations []ledger.Observation) error {
	refused, err := observe.Record(ctx, o.config.Ledger, cursor, observations...)
	for _, s := range refused {
		o.config.Logger.Error("bitcoin payment cannot be recorded", "payment", s.ExternalID, "hint", "look the transaction up and report this as a bug")
	}
	return err
}
