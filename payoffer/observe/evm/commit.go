package evm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// forgetAfter is how long, in seconds of finalized chain time, a transfer that left the chain is looked for. An
	// authorization expires in minutes.
	forgetAfter = 24 * 3600
	staleAfter  = 10 * 60          // age of the newest block, in seconds, at which the chain seems stuck
	cursorEvery = 15 * time.Second // for accounts without payments
)

// commit records what was decided about accounts, and moves the cursors of those that were read from a block on.
func (cy *cycle) commit(ctx context.Context, accounts, read []*account, j joined, low int64) error {
	cursors := make(map[*account]*ledger.Cursor)
	if target := min(j.sure, uint64(cy.lowest(Finalized).Number)); !cy.waiting && int64(target) >= low {
		anchor, err := cy.sameBlock(ctx, target)
		cy.addProblem(err)
		for _, a := range read {
			if err == nil {
				cursors[a] = cy.cursor(a, anchor, low)
			}
		}
	}
	for _, a := range accounts {
		changes := cy.reconcile(a, j)
		if a.err != nil || len(changes) == 0 {
			continue
		}
		if slices.ContainsFunc(changes, func(o ledger.Observation) bool { return o.State == ledger.StatusDropped }) {
			a.moveWatermark(nil)
		}
		if err := cy.record(ctx, a, changes, cursors[a]); err != nil {
			return err
		}
		delete(cursors, a)
	}
	return cy.moveCursors(ctx, cursors)
}

// reconcile returns the changes of an account's receipts.
func (cy *cycle) reconcile(a *account, j joined) []ledger.Observation {
	var found []observe.Movement
	hold := func(t common.Hash, held bool) {
		if a.undecided = a.undecided || held; cy.contested[t] != "" {
			a.problem = &observe.Error{Code: observe.ErrDisagree, Host: cy.contested[t]}
		}
	}
	rows := make(map[string]common.Hash)
	for _, row := range a.rows {
		rows[row.ExternalID] = common.HexToHash(row.Transaction)
	}
	for t, transfers := range j.transfers {
		for _, x := range transfers {
			if x.to != a.payTo {
				continue
			}
			m := a.movement(x, j.held[t])
			if _, known := rows[m.ExternalID]; !known && m.OccurredAt < a.watchedSince {
				m.Cause = ledger.CauseBackfilled
			}
			delete(rows, m.ExternalID)
			found = append(found, m)
			hold(t, m.Held)
		}
	}
	for id, t := range rows {
		if _, read := j.transfers[t]; !read || j.held[t] {
			found = append(found, observe.Movement{Observation: ledger.Observation{ExternalID: id}, Held: true})
			hold(t, read)
		}
	}
	slices.SortFunc(found, func(a, b observe.Movement) int {
		return cmp.Or(cmp.Compare(a.Block, b.Block), cmp.Compare(a.ExternalID, b.ExternalID))
	})
	final := cy.lowest(Finalized)
	return observe.Reconcile(a.rows, found, observe.Tip{
		Head: int64(j.through), Final: int64(final.Number), Forgotten: int64(final.Time) - forgetAfter,
		Confirmations: int64(j.through) - int64(cy.lowest(a.config.Confirm).Number) + 1,
	})
}

// record commits changes, with the cursor in the last transaction. What the ledger rejects is missing in the sums.
func (cy *cycle) record(ctx context.Context, a *account, changes []ledger.Observation, cursor *ledger.Cursor) error {
	for part := range slices.Chunk(changes, recordAtOnce) {
		var last *ledger.Cursor
		if changes = changes[len(part):]; len(changes) == 0 {
			last = cursor
		}
		refused, err := observe.Record(ctx, cy.config.Ledger, last, part...)
		if err != nil {
			return err
		}
		if len(refused) > 0 {
			a.undecided, a.problem = true, &observe.Error{Code: observe.ErrBadAnswer, Host: cy.hosts}
		}
		a.moved(last)
	}
	return nil
}

// cursor returns the account's cursor after it was read from a block up to a final one; nil if it stays.
func (cy *cycle) cursor(a *account, anchor *block, low int64) *ledger.Cursor {
	c, through, witnessed := a.stored.Cursor, int64(anchor.Number), a.witnessed
	before := c
	c.Offer, c.Account, c.Origin = a.config.OfferID, a.account, strconv.FormatInt(a.origin, 10)
	c.ExpectedPosition, c.OKAt = &before.Position, cy.config.Now().Unix()
	if through > a.covered {
		c.Position, c.Anchor = strconv.FormatInt(through, 10), anchor.Hash.Hex()
	}
	if len(cy.readings) == 2 && witnessed+1 >= low {
		witnessed = max(through, witnessed)
	}
	c.Witnessed = strconv.FormatInt(witnessed, 10)
	if c.Position == "" || c.Position == before.Position && c.Witnessed == before.Witnessed {
		return nil
	}
	return &c
}

// moved stores a cursor that was committed, if any.
func (a *account) moved(c *ledger.Cursor) {
	if c != nil {
		a.stored.Cursor = *c
		a.covered, _ = observe.Position(c.Position) // written by cursor
		a.witnessed, _ = observe.Position(c.Witnessed)
	}
}

// moveCursors moves the cursors of accounts without changes. Those near the head wait for cursorEvery.
func (cy *cycle) moveCursors(ctx context.Context, cursors map[*account]*ledger.Cursor) error {
	now := cy.config.Now()
	var all []ledger.Cursor
	for a, c := range cursors {
		if c != nil && (cy.from(a) < cy.nearBlock() || now.Sub(cy.moved).Abs() >= cursorEvery) {
			all = append(all, *c)
			a.moved(c)
		}
	}
	if len(all) == 0 {
		return nil
	}
	if cy.moved = now; cy.config.Ledger.MoveCursors(ctx, all...) != nil {
		return observe.ErrNoLedger
	}
	return nil
}

// apply updates the health of an account.
func (cy *cycle) apply(a *account) {
	o, now := a.Observer, cy.config.Now().Unix()
	o.mu.Lock()
	defer o.mu.Unlock()
	if a.err == nil || source.Code(a.err) == observe.ErrHistory {
		o.history = a.err
	}
	o.anchors = cy.anchors
	unwitnessed := len(cy.readings) < 2 && slices.ContainsFunc(cy.endpoints, func(e *endpoint) bool { return !cy.reads(e.host) })
	o.health.Blind, o.health.Partial = a.err != nil, a.err != nil || a.undecided && a.problem != nil || cy.missing || unwitnessed
	o.health.LastError = source.Code(cmp.Or(a.err, a.problem, cy.problem))
	if !a.isRead() || cy.through == 0 {
		return
	}
	head := int64(cy.lowest(Latest).Time)
	if o.health.ObservedThrough, o.health.At = fmt.Sprintf("block %d", cy.through), min(head, now); a.covered < cy.nearBlock() {
		o.health.ObservedThrough, o.health.Partial = fmt.Sprintf("block %d", a.covered), true
	}
	if now-head > staleAfter {
		o.health.Partial, o.health.LastError = true, cmp.Or(o.health.LastError, observe.ErrLagging)
	}
}
