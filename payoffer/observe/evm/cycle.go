package evm

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// watchEvery is the time between two cycles, and watchRarely after failures.
	watchEvery  = 4 * time.Second
	watchRarely = time.Minute
	// staleAfter is the age of the newest block, in seconds, at which the chain seems stuck.
	staleAfter = 10 * 60
	// untilWoken is the pause of an idle account.
	untilWoken = math.MaxInt64
)

// Run reads the chain until ctx ends; while the account is idle, the Chain reads for it. It logs changed problems,
// and can be called again.
func (e *Observer) Run(ctx context.Context) {
	e.began = false
	defer e.chain.removeIdle(e)
	if e.own {
		var reading sync.WaitGroup
		reading.Go(func() { e.chain.Run(ctx) })
		defer reading.Wait()
	}
	e.loop.Run(ctx)
}

// start runs a cycle, unless the account starts idle.
func (e *Observer) start(ctx context.Context) (time.Duration, error) {
	if !e.began {
		if e.began = true; e.becomeIdle(ctx) {
			return untilWoken, nil
		}
	}
	return e.next(ctx)
}

// next runs a cycle and returns the spread time to the next one.
func (e *Observer) next(ctx context.Context) (time.Duration, error) {
	err := e.Poll(ctx)
	if ctx.Err() != nil {
		return 0, err
	}
	blind := e.Health().Blind
	e.problems.log(e.config.Logger, err, blind)
	if e.wait = min(2*e.wait, watchRarely); err == nil || !blind {
		e.wait = watchEvery
	}
	if e.idle != nil {
		e.chain.addIdle(e, e.idle)
		return untilWoken, err
	}
	return source.Spread(e.wait, e.config.Random()), err
}

// problemLog is the problem that was logged last.
type problemLog struct{ last string }

// log logs a changed problem. Unlike source.Loop it compares hosts too: with the last host the rail becomes blind.
func (r *problemLog) log(logger *slog.Logger, err error, blind bool) {
	before := r.last
	r.last = ""
	if err != nil {
		r.last = err.Error()
	}
	switch {
	case r.last == before:
	case err == nil:
		logger.Info("the chain can be read again")
	case source.Code(err) == observe.ErrHistory:
		logger.Error("final blocks have changed", "error", r.last,
			"hint", "nothing is recorded until the rpc endpoints agree with the ledger; replace a wrong endpoint")
	case blind:
		logger.Warn("the chain cannot be read", "error", r.last, "hint", source.Hint(err))
	default:
		logger.Warn("the chain can be read only in part", "error", r.last, "hint", source.Hint(err))
	}
}

// Poll reads the receipts that are not final, and every Transfer log since the last final block. The error is the
// first problem; what could be read is recorded, and Health says whether that was all. It is not for concurrent use.
func (e *Observer) Poll(ctx context.Context) error {
	for from := uint64(0); ; {
		next, err := e.runCycle(ctx, from)
		if next == 0 {
			return err
		}
		from = next
	}
}

// cycle is one reading of the chain.
type cycle struct {
	*Observer
	view *view

	// cursor is the stored cursor, or nil. covered is the block up to which everything is recorded and final.
	cursor  *ledger.Cursor
	covered uint64
	// storedPosition is the cursor's position in the ledger, empty for none. A cursor that was changed meanwhile is
	// not overwritten.
	storedPosition string
	// storedOrigin is the origin in the ledger that the scan began with.
	storedOrigin string
	// watchedSince is when the account was first watched, in Unix seconds; 0 if unknown. Earlier payments are backfilled.
	watchedSince int64
	through      uint64
	// decided contains, by external id, whether the decision on a movement is certain.
	decided map[string]bool
	tallies map[common.Hash]tally
	// partial means that a payment is undecided, and uncertain that its block is within the watermark (Covered).
	// complete means that all logs up to the head were read and decided.
	partial, uncertain, complete bool
	// head is the newest block, or nil if the endpoints do not agree on one.
	head *block
	// busy means that the cycle found a payment that can still change. first is when the account was first watched,
	// by the clock of that time. It is 0 once it cannot change the origin.
	busy  bool
	first int64
}

func (e *Observer) newCycle(v *view) *cycle {
	return &cycle{Observer: e, view: v, decided: make(map[string]bool), tallies: make(map[common.Hash]tally)}
}

// runCycle follows known receipts and scans from a block, or after the cursor if from is 0. next is 0 at the head.
func (e *Observer) runCycle(ctx context.Context, from uint64) (next uint64, err error) {
	v, err := e.chain.readView(ctx, e.config.Confirm)
	p := e.newCycle(v)
	if err == nil {
		err = p.anchor(ctx)
	}
	if err == nil {
		err = p.followRows(ctx)
	}
	if err == nil && !e.config.FollowOnly {
		next, err = p.scan(ctx, from)
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	e.chain.warnWithoutFinality(v)
	e.idle = nil
	if err == nil && next == 0 && !p.busy {
		e.idle = p.idleState()
	}
	e.applyOutcome(outcome{
		view: v, err: err, through: p.through, partial: p.partial || next != 0, complete: p.complete, head: p.head,
	})
	if err != nil {
		return 0, err
	}
	return next, v.problem
}

// outcome is the result of a cycle.
type outcome struct {
	view *view
	err  error
	// through is the last block whose logs were read, or 0. partial means that a payment is undecided.
	through uint64
	partial bool
	// complete means that everything up to head was read and decided.
	complete bool
	head     *block
	// since is the time from which everything was read, in Unix seconds; 0 if it is unknown or was known before.
	since int64
}

// applyOutcome updates the health and the watermark.
func (e *Observer) applyOutcome(o outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if o.err == nil || source.Code(o.err) == observe.ErrHistory {
		e.history = o.err
	}
	e.since = cmp.Or(e.since, o.since)
	if o.complete && o.head != nil {
		e.upTo, e.seen = e.seen, o.head
	}
	now := e.config.Now().Unix()
	e.health.Blind = o.err != nil
	e.health.Partial = o.err != nil || o.partial || len(o.view.readers) < observe.RequiredWitnesses(len(e.endpoints))
	e.health.LastError = source.Code(cmp.Or(o.err, o.view.problem))
	if o.through > 0 {
		e.health.ObservedThrough = fmt.Sprintf("block %d", o.through)
		e.health.At = min(o.view.headTime, now)
		if o.err == nil && now-o.view.headTime > staleAfter {
			e.health.Partial, e.health.LastError = true, cmp.Or(e.health.LastError, observe.ErrLagging)
		}
	}
}

// record commits observations and the cursor. What the ledger rejects is missing in the sums.
func (p *cycle) record(ctx context.Context, cursor *ledger.Cursor, observations []ledger.Observation) error {
	if cursor != nil {
		cursor.ExpectedPosition, cursor.Origin = &p.storedPosition, p.storedOrigin
	}
	refused, err := observe.Record(ctx, p.config.Ledger, cursor, observations...)
	if len(refused) > 0 {
		p.markPartial(&observe.Error{Code: observe.ErrBadAnswer, Host: p.hosts()})
	}
	if err == nil && cursor != nil {
		p.cursor, p.storedPosition = cursor, cursor.Position
		var number int64
		number, err = observe.Position(cursor.Position)
		p.covered = max(p.covered, uint64(number))
	}
	return err
}

// markPartial adds a problem because of which a payment can be unknown.
func (p *cycle) markPartial(err error) {
	p.partial, p.uncertain = true, true
	p.view.addProblem(err)
}

func (e *Observer) hosts() string { return e.chain.hosts() }
