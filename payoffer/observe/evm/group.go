package evm

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

// group are accounts that are read together, from the block after covered.
type group struct {
	accounts []*Observer
	covered  uint64
	// near means that they are read up to the head. All other groups are behind.
	near bool
}

// groups returns the accounts near the head, then those behind. Accounts less than a range apart share a group.
func (w *idleCycle) groups() (all []group) {
	near := min(w.final, w.head-min(w.head, spanFirst))
	furthest := func(a, b *Observer) int { return cmp.Compare(w.at[b].covered, w.at[a].covered) }
	for _, e := range slices.SortedFunc(maps.Values(w.by), furthest) {
		covered, last := w.at[e].covered, len(all)-1
		if last < 0 || all[last].near != (covered >= near) || !all[last].near && all[last].covered-covered > spanMost {
			all = append(all, group{near: covered >= near})
			last++
		}
		all[last].accounts, all[last].covered = append(all[last].accounts, e), covered
	}
	return all
}

// scan reads the payments since the accounts were covered, one range for those behind. more says that these made
// progress. The error is that of the accounts near the head.
func (w *idleCycle) scan(ctx context.Context) (more bool, err error) {
	behind := 0
	for _, g := range w.groups() {
		if !g.near {
			if behind++; behind > behindAtOnce {
				return true, err
			}
		}
		o := w.read(ctx, g)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		at := make(map[*Observer]*idleState)
		for _, e := range g.accounts {
			if w.by[e.payTo] == e {
				at[e] = w.at[e]
				more = more || !g.near && at[e].covered > g.covered
			}
		}
		w.applyToIdle(at, o)
		if g.near {
			err = o.err
		} else {
			w.addProblem(o.err)
		}
	}
	return more, err
}

// read reads one range for a group, or everything up to the head if it is near. Payments wake their observers, and
// the other cursors move.
func (w *idleCycle) read(ctx context.Context, g group) (o outcome) {
	o = outcome{view: w.view, since: w.since(ctx, g)}
	low, high := g.covered+1, w.view.head
	if !g.near {
		high = min(low+min(queriesAtOnce*w.span(), spanMost)-1, high)
	}
	var whole bool
	o.through, whole, o.err = w.collectAll(ctx, g, low, high)
	if o.err == nil && whole {
		o.err = w.moveCursors(ctx, g, min(o.through, w.final))
	}
	o.complete = whole && o.through == w.view.head
	if o.partial = !o.complete; o.complete {
		o.head = w.blockAt(ctx, w.view.head)
	}
	return o
}

// since returns the time (Unix seconds) from which a group is read, or 0 if all its accounts have one.
func (w *idleCycle) since(ctx context.Context, g group) int64 {
	latest, unknown := g.covered, false
	for _, e := range g.accounts {
		since, _ := e.watermark()
		latest, unknown = max(latest, w.at[e].covered), unknown || since == 0
	}
	if !unknown {
		return 0
	}
	if b := w.blockAt(ctx, latest); b != nil {
		return int64(b.Time) + 1
	}
	return 0
}

// collectAll reads the Transfers to a group and wakes the paid accounts. It returns the last block of which all were
// read. whole reports whether enough endpoints have read them.
func (w *idleCycle) collectAll(ctx context.Context, g group, low, high uint64) (through uint64, whole bool, err error) {
	through, whole = high, true
	for part := range slices.Chunk(g.accounts, w.width) {
		var words []common.Hash
		for _, e := range part {
			words = append(words, wordOf(e.payTo))
		}
		f := filter{w.token, []any{topicTransfer, nil, words}}
		for from := low; from <= through; {
			s, err := w.collectLogs(ctx, f, from, min(from+queriesAtOnce*w.span()-1, through))
			if err != nil && from > low && source.Code(err) == observe.ErrLimited {
				// The next cycle reads the rest.
				w.addProblem(err)
				through, whole = from-1, false
				break
			}
			if err != nil {
				w.narrow(err, len(part))
				return low - 1, false, err
			}
			if !s.whole {
				whole = false
				w.addProblem(s.problem)
			}
			for n := range s.logs {
				w.paid(&s.logs[n])
			}
			if from = s.through + 1; !g.near {
				through = s.through
			}
		}
	}
	return through, whole, nil
}

// paid wakes the account that a log pays.
func (w *idleCycle) paid(l *log) {
	_, to, amount, ok := w.transfer(l)
	if e := w.by[to]; ok && e != nil && amount >= dust && uint64(l.BlockNumber) > w.at[e].covered {
		w.wakeAccount(e)
	}
}

// narrow queries fewer accounts at once if an endpoint refuses them in any range.
func (w *idleCycle) narrow(err error, accounts int) {
	if accounts < 2 || demanded(err) == fewerOrSmaller || !refused(err) {
		return
	}
	w.width = accounts / 2
	for _, r := range w.readers {
		r.span.reset()
	}
}

// moveCursors moves the cursors of a group to a final block.
func (w *idleCycle) moveCursors(ctx context.Context, g group, number uint64) error {
	now := w.config.Now()
	var accounts []*Observer
	for _, e := range g.accounts {
		if w.by[e.payTo] == e && w.at[e].covered < number {
			accounts = append(accounts, e)
		}
	}
	if len(accounts) == 0 || g.near && now.Sub(w.covered).Abs() < cursorEvery {
		return nil
	}
	b := w.same(func(r *reader) (*block, error) { return r.blockOnce(ctx, number) })
	if b == nil {
		return nil
	}
	to := ledger.Cursor{Position: strconv.FormatUint(number, 10), Anchor: b.Hash.Hex(), OKAt: now.Unix()}
	names := make(map[[2]string][]string) // by their cursors, or their origins without one
	for _, e := range accounts {
		at := w.at[e]
		key := [2]string{at.position}
		if at.position == "" {
			key[1] = strconv.FormatUint(at.covered, 10)
		}
		names[key] = append(names[key], e.account)
	}
	for key, names := range names {
		to.ExpectedPosition, to.Origin = &key[0], key[1]
		if err := w.config.Ledger.MoveCursors(ctx, to, names...); err != nil {
			return observe.ErrNoLedger
		}
	}
	for _, e := range accounts {
		at := w.at[e]
		at.covered, at.position, at.anchor = number, to.Position, to.Anchor
	}
	if g.near {
		w.covered = now
	}
	return nil
}
