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
	// freshEvery is the shortest time between two cycles for idle accounts.
	freshEvery = time.Second
	// cursorEvery is how often their cursors are moved.
	cursorEvery = 15 * time.Second
	// widthMost is how many accounts one query asks for; some endpoints accept at most 1,000.
	widthMost = 500
	// behindAtOnce is how many groups that are behind are read in a cycle, one range each.
	behindAtOnce = 2
)

// idleCycle is one poll of the chain for all idle accounts.
type idleCycle struct {
	*Chain
	*view
	at map[*Observer]*idleState
	// by has the observer of each address.
	by map[common.Address]*Observer
}

// readIdle reads the chain for all idle accounts. more reports whether some are behind. The error is the first
// problem that prevented a reading.
func (c *Chain) readIdle(ctx context.Context) (more bool, err error) {
	w := &idleCycle{Chain: c, at: c.idleAccounts(), by: make(map[common.Address]*Observer)}
	if len(w.at) == 0 {
		return false, nil
	}
	w.view, err = c.readView(ctx, Latest)
	if err == nil {
		err = w.recall(ctx)
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	unscanned := maps.Clone(w.at) // accounts that are only followed, and all after an error
	maps.DeleteFunc(unscanned, func(e *Observer, _ *idleState) bool { return err == nil && !e.config.FollowOnly })
	c.applyToIdle(unscanned, outcome{view: w.view, err: err})
	if err == nil {
		w.origins(ctx)
		more, err = w.scan(ctx)
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	w.warnWithoutFinality(w.view)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems.log(w.config.Logger, cmp.Or(err, w.problem), err != nil)
	return more, err
}

// warnWithoutFinality logs once that blocks far below the head count as final.
func (c *Chain) warnWithoutFinality(v *view) {
	if slices.ContainsFunc(v.readers, func(r *reader) bool { return r.deep }) {
		c.deep.Do(func() {
			c.config.Logger.Warn("RPC endpoint reports no finalized blocks", "blocks", deepBlocks,
				"hint", "blocks that far below the head count as final; use another endpoint to avoid this")
		})
	}
}

// recall compares the accounts with the ledger. One that has open receipts, or whose cursor was deleted, is woken.
// What other instances have read is not read again.
func (w *idleCycle) recall(ctx context.Context) error {
	common, prefix := w.common()
	rows, err := w.config.Ledger.AccountStates(ctx, prefix, common.position)
	if err != nil {
		return observe.ErrNoLedger
	}
	others := make(map[string]ledger.AccountState)
	for _, row := range rows {
		others[row.Account] = row
	}
	for e, at := range w.at {
		stands, differs := others[e.account]
		if !differs {
			stands.Position, stands.Anchor = common.position, common.anchor
		}
		if stands.Open || !e.config.FollowOnly && !at.advanceTo(stands) {
			w.wakeAccount(e)
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

// common returns the state that most accounts have, and the common prefix of their names.
func (w *idleCycle) common() (most idleState, prefix string) {
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

// advanceTo moves to the ledger's cursor; false if that is not further.
func (at *idleState) advanceTo(s ledger.AccountState) bool {
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

// anchors returns the number of each cursor's block, by its hash.
func (w *idleCycle) anchors() map[string]uint64 {
	found := make(map[string]uint64)
	for _, e := range w.by {
		if at := w.at[e]; at.position != "" {
			number, _ := observe.Position(at.position) // checked before
			found[at.anchor] = uint64(number)
		}
	}
	return found
}

func (w *idleCycle) wakeAccount(e *Observer) {
	w.wake(e)
	delete(w.at, e)
	if w.by[e.payTo] == e {
		delete(w.by, e.payTo)
	}
}

// origins checks that the block of the first start is still the last one before it, until the first cursor is stored.
func (w *idleCycle) origins(ctx context.Context) {
	for _, e := range w.by {
		at := w.at[e]
		if at.position != "" || at.first == 0 {
			continue
		}
		b := w.blockAt(ctx, at.covered)
		if b != nil && int64(b.Time) > at.first-int64(e.config.ClockOffset().Seconds()) {
			w.wakeAccount(e)
		}
	}
}
