package bitcoin

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// conclusion is what follows from the readings of a cycle.
type conclusion struct {
	changes []ledger.Observation
	next    position
	// head is the newest block that two endpoints show, or the only one. stale means that it is old.
	head  int64
	stale bool
	// trusted means that the reader decides without a witness, because no other host is live. waits means that a live
	// witness could not be read, and settled that nothing waits for an endpoint.
	trusted, waits, settled bool
	// disputed is the lowest block with a payment on which no two endpoints agree, and reason says why.
	disputed int64
	reason   error
	admitted int             // new unconfirmed payments
	spent    map[string]bool // the outputs that the shown transactions spend
}

// decision is what becomes of a transaction.
type decision struct {
	// report is what two endpoints say, or the only one. If they do not agree, it is the transaction as one shows it.
	report
	// agreed means that two endpoints say so, or the only one, and shown that both have the transaction.
	agreed, shown bool
}

// conclude decides about all transactions.
func (c *cycle) conclude(ctx context.Context) error {
	c.conclusion = conclusion{disputed: maxHeight + 1, trusted: !c.awaits(), spent: make(map[string]bool)}
	if len(c.readings) > 1 {
		c.askEach(ctx)
	}
	decisions := make(map[string]decision)
	for _, r := range c.readings {
		for id, said := range r.reports {
			if _, done := decisions[id]; done {
				continue
			}
			final, err := c.isFinal(ctx, said.tx)
			if err != nil {
				return err
			}
			d := c.decide(id)
			if decisions[id] = d; !c.trusted && !final {
				c.dispute(id, d)
			}
			for _, in := range d.tx.Inputs {
				c.spent[in.String()] = true
			}
		}
	}
	c.waits = !c.trusted && len(c.readings) < 2
	split := c.advanceCursor(ctx)
	if split && c.reason == nil {
		c.reason = disagree(c.readings...)
	}
	c.settled = !c.waits && !split && c.disputed > maxHeight
	var found []observe.Movement
	for id, d := range decisions {
		m, err := c.movements(ctx, id, d)
		if err != nil {
			return err
		}
		found = append(found, m...)
	}
	tip := observe.Tip{Head: c.head, Final: c.next.Height, Confirmations: int64(c.config.Confirmations)}
	c.changes = observe.Reconcile(slices.Collect(maps.Values(c.rows)), found, tip)
	return nil
}

// askEach has each endpoint look up the transactions that only another one shows, in a block that it has reached.
func (c *cycle) askEach(ctx context.Context) {
	for _, r := range c.readings {
		for _, other := range c.readings {
			for id, said := range other.reports {
				if !said.tx.Status.Confirmed || said.tx.Status.Height > r.tip.Height {
					continue
				}
				err := r.lookUp(ctx, id)
				if errors.Is(err, errMoved) {
					err = r.fail(observe.ErrLagging)
				}
				if err != nil {
					r.reports[id] = report{failed: true}
					r.recordOutcome(err)
					c.addProblem(err)
				}
			}
		}
	}
}

// decide returns what two endpoints say of a transaction. One is enough if it is trusted.
func (c *cycle) decide(id string) decision {
	var first ledger.Receipt
	if rows := c.byTransaction[id]; len(rows) > 0 {
		first = rows[0]
	}
	d := decision{report: report{unknown: true}}
	for i, r := range c.readings {
		said, is := r.reports[id]
		if !is || said.failed {
			continue
		}
		if c.trusted {
			return decision{report: said, agreed: true, shown: !said.unknown}
		}
		for _, other := range c.readings[:i] {
			if before, is := other.reports[id]; is && before.agrees(said) {
				both := !said.unknown && !before.unknown
				if said.unknown {
					said = before
				}
				return decision{report: said, agreed: true, shown: both}
			}
		}
		if d.unknown && !said.unknown && (!said.own || first.Own) { // one endpoint cannot make it own money
			d.report = said
			d.tx.Status = status{}
		}
	}
	return d
}

// dispute records who contradicts whom about the block of a transaction.
func (c *cycle) dispute(id string, d decision) {
	for _, r := range c.readings {
		said := r.reports[id]
		if !said.tx.Status.Confirmed {
			continue
		}
		block := said.tx.Status.Height
		for _, other := range c.readings {
			against := other.reports[id]
			if other == r || other.tip.Height < block || against.failed || against.agrees(said) {
				continue
			}
			contradiction := disagree(r, other)
			if c.reason = contradiction; !c.logged[id] {
				c.logged[id] = true
				c.config.Logger.Warn("two Esplora endpoints disagree about a payment", "transaction", id, "endpoints", contradiction.Host,
					"hint", "it is not counted or dropped until two agree; look it up in a block explorer, and replace the endpoint that is wrong")
			}
		}
		if d.agreed {
			continue
		}
		c.disputed = min(c.disputed, block)
		if c.reason == nil && r.tip.Height-block+1 >= int64(c.config.Confirmations) { // the other one has not reached it
			c.reason = &observe.Error{Code: observe.ErrLagging, Host: disagree(c.readings...).Host}
		}
	}
	for _, row := range c.byTransaction[id] {
		if block := evidenceOf(row).Block; !d.agreed && block > 0 && row.Status != ledger.StatusDropped {
			c.disputed = min(c.disputed, block)
		}
	}
}

// advanceCursor concludes how far the account was read: to the last final block below all disputed ones, and to the first
// address without a payment. split means that no two endpoints show the same chain: a single block can differ for a while.
func (c *cycle) advanceCursor(ctx context.Context) (split bool) {
	base, final := c.readings[0], int64(-1)
	if c.next, c.head = c.state.position, base.tip.Height; c.trusted {
		final = base.final()
	}
	var indexes []uint32
	best := int64(-1)
	for i, b := range c.readings {
		indexes = append(indexes, b.next)
		for _, a := range c.readings[:i] {
			if height := c.common(ctx, a, b); height > best {
				if base = a; b.tip.Height < a.tip.Height {
					base = b
				}
				best, c.head, final = height, height, min(base.final(), height)
				split = base.tip.Height-height > 1
			}
		}
	}
	c.stale = c.now.Unix()-base.tip.Time > seconds(staleAfter)
	if final = min(final, c.disputed-1); final >= 0 && (final > c.Height || c.anchor == "") {
		if hash, err := base.at(ctx, final); err == nil {
			c.next.Height, c.next.anchor = final, hash
		}
	}
	if len(c.readings) > 1 && c.next.anchor != "" {
		c.next.witnessed = max(c.next.witnessed, final)
	}
	if slices.Sort(indexes); !c.waits && c.config.Rail.Extended() {
		c.next.Index = &indexes[max(0, len(indexes)-2)] // two endpoints show the payments before it
		for _, r := range c.readings {
			if r.next > *c.next.Index {
				r.search = search{} // the others contradict it
			}
		}
	}
	return split
}

// common returns the highest block that two endpoints show, not below the final one.
func (c *cycle) common(ctx context.Context, a, b *reading) int64 {
	height := min(a.tip.Height, b.tip.Height)
	for ; height > max(c.Height, min(a.final(), b.final())); height-- {
		one, err1 := a.at(ctx, height)
		other, err2 := b.at(ctx, height)
		if err1 == nil && err2 == nil && one == other {
			return height
		}
	}
	return c.Height
}

// movements returns what becomes of a transaction's receipts.
func (c *cycle) movements(ctx context.Context, id string, d decision) (found []observe.Movement, err error) {
	held := !d.agreed
	if _, known := c.absent[id]; !d.unknown {
		delete(c.absent, id)
	} else if !known {
		c.absent[id] = c.now
	}
	shown := make(map[string]bool)
	if !d.unknown {
		if found, err = c.payments(ctx, d, held); err != nil {
			return nil, err
		}
		for _, m := range found {
			shown[m.ExternalID] = true
		}
	}
	for _, row := range c.byTransaction[id] {
		m := observe.Movement{Observation: ledger.Observation{ExternalID: row.ExternalID}, Held: held || !d.unknown && d.tx.has(row)}
		switch {
		case shown[row.ExternalID]:
			continue
		case m.Held: // also if its address is not derived
		case d.unknown && c.replaced(row):
			m.Gone = "replaced"
		case !d.unknown, row.Status == ledger.StatusDropped, c.now.Sub(c.absent[id]) > evictedAfter:
			m.Gone = "evicted"
		case evidenceOf(row).Block > 0:
			m.Observation = waiting(row)
		default:
			continue
		}
		found = append(found, m)
	}
	return found, nil
}

// replaced reports whether a shown transaction spends the same as a receipt's unknown one: the payer raised the fee.
func (c *cycle) replaced(row ledger.Receipt) bool {
	return slices.ContainsFunc(evidenceOf(row).Inputs, func(in string) bool { return c.spent[in] })
}

// waiting returns the state of a receipt whose block left the chain: it can be mined again.
func waiting(row ledger.Receipt) ledger.Observation {
	o := observe.Restated(row, ledger.StatusSeen, "reorg")
	if row.Own {
		o.State = ledger.StatusMoved
	}
	proof := evidenceOf(row)
	proof.Block, proof.BlockHash = 0, ""
	o.Evidence = offer.JSON(proof)
	return *o
}
