package evm

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// freshEvery is the shortest time between two rounds for the accounts at rest.
	freshEvery = time.Second
	// coverEvery is how often their cursors are moved.
	coverEvery = 15 * time.Second
	// widthMost is how many accounts one query asks for at most: some endpoints take
	// no more than 1,000.
	widthMost = 500
	// behindAtOnce is how many groups of accounts that are behind are read in a round,
	// one range each: the others do not wait for them.
	behindAtOnce = 2
)

// watch is one look at the chain for all accounts at rest.
type watch struct {
	*Chain
	*view
	at map[*Observer]*place
	// by finds those that are read by the address that they are paid to.
	by map[common.Address]*Observer
}

// watch reads the chain once for all accounts at rest, and reports whether some of
// them are behind, so that there is more to read. The error is the first problem
// because of which it could not.
func (c *Chain) watch(ctx context.Context) (more bool, err error) {
	w := &watch{Chain: c, at: c.atRest(), by: make(map[common.Address]*Observer)}
	if len(w.at) == 0 {
		return false, nil
	}
	w.view, err = c.look(ctx, Latest)
	if reached, agreed := w.reached(); agreed {
		c.config.HeadTime(reached)
	}
	if err == nil {
		err = w.recall(ctx)
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	c.note(w.unscanned(err), outcome{view: w.view, err: err})
	if err == nil {
		w.origins(ctx)
		more, err = w.scan(ctx)
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	w.report(cmp.Or(err, w.problem), err != nil)
	w.tellDepth(w.view)
	return more, err
}

// unscanned are the accounts that the look has said everything of: those that are
// followed alone, and all after an error.
func (w *watch) unscanned(err error) map[*Observer]*place {
	all := maps.Clone(w.at)
	maps.DeleteFunc(all, func(e *Observer, _ *place) bool { return err == nil && !e.config.FollowOnly })
	return all
}

func (w *watch) report(err error, blind bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports.report(w.config.Logger, err, blind)
}

// tellDepth logs once where blocks far below the head stand in for final ones.
func (c *Chain) tellDepth(v *view) {
	if slices.ContainsFunc(v.readers, func(r *reader) bool { return r.deep }) {
		c.deep.Do(func() {
			c.config.Logger.Warn("an RPC endpoint has no safe or finalized blocks; those far below its head count as such", "blocks", deepBlocks)
		})
	}
}

// recall compares the accounts with the ledger. One that was rewound, that has
// receipts which may still change, or whose origin was lowered, rests no more; and
// what other instances have read is not read again.
func (w *watch) recall(ctx context.Context) error {
	common, prefix := w.common()
	rows, err := w.config.Ledger.Standings(ctx, prefix, common.position)
	if err != nil {
		return observe.ErrNoLedger
	}
	others := make(map[string]ledger.Standing)
	for _, row := range rows {
		others[row.Account] = row
	}
	for e, at := range w.at {
		stands, differs := others[e.account]
		if !differs {
			stands.Position, stands.Anchor = common.position, common.anchor
		}
		if stands.Open || !e.config.FollowOnly && !at.follow(stands) {
			w.leaveAlone(e)
			continue
		}
		if !e.config.FollowOnly {
			w.by[e.payTo] = e
		}
	}
	for anchor, number := range w.anchors() {
		if err := w.anchored(ctx, number, anchor); err != nil {
			return err
		}
	}
	return nil
}

// common is where most accounts stand, and what the names of all begin with.
func (w *watch) common() (most place, prefix string) {
	votes := make(map[string]int)
	for e, at := range w.at {
		prefix = e.account[:strings.LastIndexByte(e.account, '/')+1]
		if e.config.FollowOnly {
			continue
		}
		if votes[at.position]++; votes[at.position] > votes[most.position] || most.position == at.position {
			most = *at
		}
	}
	return most, prefix
}

// follow goes to where the cursor stands by now, and reports false where that was
// put back.
func (at *place) follow(s ledger.Standing) bool {
	if s.Position == at.position {
		return true
	}
	number, err := observe.Position(s.Position)
	if err != nil || number < 0 || uint64(number) < at.covered {
		return false
	}
	at.covered, at.position, at.anchor = uint64(number), s.Position, s.Anchor
	return true
}

// anchors are the blocks at which cursors stand, by their hashes.
func (w *watch) anchors() map[string]uint64 {
	found := make(map[string]uint64)
	for _, e := range w.by {
		if at := w.at[e]; at.position != "" {
			number, _ := observe.Position(at.position) // it was read before
			found[at.anchor] = uint64(number)
		}
	}
	return found
}

// leaveAlone leaves an account to its observer.
func (w *watch) leaveAlone(e *Observer) {
	w.disturb(e)
	delete(w.at, e)
	if w.by[e.payTo] == e {
		delete(w.by, e.payTo)
	}
}

// origins looks whether the block of the first start is still the last one before
// it: until the first cursor stands, the chain and the clock may turn out otherwise.
func (w *watch) origins(ctx context.Context) {
	for _, e := range w.by {
		at := w.at[e]
		if at.position != "" || at.first == 0 {
			continue
		}
		b := w.blockAt(ctx, at.covered)
		if b != nil && int64(b.Time) > at.first-int64(e.config.ClockOffset().Seconds()) {
			w.leaveAlone(e)
		}
	}
}
