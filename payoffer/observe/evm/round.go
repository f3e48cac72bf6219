package evm

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// watchEvery is how often the chain is read, and watchRarely how often
	// while it cannot be.
	watchEvery  = 4 * time.Second
	watchRarely = time.Minute
	// staleAfter is how old the newest block may be, in seconds: all networks
	// make one within seconds, and what came since would not be seen.
	staleAfter = 10 * 60
)

// Run reads the chain round by round until ctx ends, and while the account is at
// rest together with others. What is wrong is logged when it changes. It may be
// called again afterwards.
func (e *Observer) Run(ctx context.Context) {
	done := make(chan struct{})
	e.Begin(ctx, func() { close(done) })
	<-done
}

// Begin is Run that does not wait: it calls ended when Run would return.
func (e *Observer) Begin(ctx context.Context, ended func()) {
	e.began = false
	loops := []*source.Loop{&e.loop}
	if e.own {
		loops = append(loops, &e.chain.loop)
	}
	done := source.After(len(loops), func() {
		e.chain.leave(e)
		ended()
	})
	for _, loop := range loops {
		loop.Begin(ctx, done)
	}
}

// look is a round, unless the account is at rest from the beginning.
func (e *Observer) look(ctx context.Context) (time.Duration, error) {
	if !e.began {
		if e.began = true; e.rest(ctx) {
			return untilWoken, nil
		}
	}
	return e.next(ctx)
}

// untilWoken is the pause of an account at rest.
const untilWoken = math.MaxInt64

// next is a round, and the time to the one after it: several observers of one
// endpoint do not ask at the same moment.
func (e *Observer) next(ctx context.Context) (time.Duration, error) {
	err := e.Round(ctx)
	if ctx.Err() != nil {
		return 0, err
	}
	blind := e.Health().Blind
	e.reports.report(e.config.Logger, err, blind)
	if e.wait = min(2*e.wait, watchRarely); err == nil || !blind {
		e.wait = watchEvery
	}
	if e.quiet != nil {
		e.chain.join(e, e.quiet)
		return untilWoken, err
	}
	return source.Spread(e.wait, e.config.Random()), err
}

// reports remember what was logged.
type reports struct{ trouble string }

// report logs what has changed since the last round. Loop would tell of codes
// alone: here another host is another trouble, for with the last one the rail
// becomes blind.
func (r *reports) report(log *slog.Logger, err error, blind bool) {
	before := r.trouble
	r.trouble = ""
	if err != nil {
		r.trouble = err.Error()
	}
	switch {
	case r.trouble == before:
	case err == nil:
		log.Info("the chain can be read again")
	case source.Code(err) == observe.ErrHistory:
		log.Error("what was final on the chain has changed, or the endpoints show another chain; nothing is recorded until they "+
			"show it again: check the rpc endpoints of this rail", "error", r.trouble)
	case blind:
		log.Warn("the chain cannot be read; its receipts wait", "error", r.trouble)
	default:
		log.Warn("the chain can be read in part", "error", r.trouble)
	}
}

// Round reads the chain once: the receipts that are not final, and every
// Transfer log since the last final block. It catches up with all that was
// missed. The error is the first problem met; what could be read in spite of
// it is recorded, and Health says whether that was all. It is not for
// concurrent use.
func (e *Observer) Round(ctx context.Context) error {
	for from := uint64(0); ; {
		next, err := e.pass(ctx, from)
		if next == 0 {
			return err
		}
		from = next
	}
}

// pass is one look at the chain.
type pass struct {
	*Observer
	view *view

	// cursor is that of the ledger, nil for none, and covered the block up to which
	// the ledger holds everything for good.
	cursor  *ledger.Cursor
	covered uint64
	// standing is the position of the cursor in the ledger, empty for none: one that
	// was rewound meanwhile is not put back.
	standing string
	// watchedSince is when the account was first watched, in Unix seconds; 0 where that
	// is not known. What was paid before is backfilled, whenever it is read.
	watchedSince int64
	// through is the block up to which the logs were read.
	through uint64
	// decided says of the movements that were decided on whether that was sure.
	decided map[string]bool
	// tallies are those of this pass.
	tallies map[common.Hash]tally
	// partial says that something stayed open, and open that it did in what
	// Covered speaks for. closed says that all logs up to the head were read, with
	// nothing open there.
	partial, open, closed bool
	// head is the newest block that it reads, or nil where the endpoints do not
	// agree on one.
	head *block
	// busy says that something was found that the chain may still change, or that
	// was not recorded before, and first is when the account was first watched by the
	// clock of then; 0 where that has nothing to say of the origin any more.
	busy  bool
	first int64
}

func (e *Observer) newPass(v *view) *pass {
	return &pass{Observer: e, view: v, decided: make(map[string]bool), tallies: make(map[common.Hash]tally)}
}

// pass follows what is known and scans from a block; 0 means after the cursor.
// next is where to go on, 0 when the head was reached.
func (e *Observer) pass(ctx context.Context, from uint64) (next uint64, err error) {
	v, err := e.chain.look(ctx, e.config.Confirm)
	p := e.newPass(v)
	if reached, agreed := p.view.reached(); agreed {
		e.chain.config.HeadTime(reached)
	}
	if err == nil {
		err = p.anchor(ctx)
	}
	if err == nil {
		err = p.follow(ctx)
	}
	if err == nil && !e.config.FollowOnly {
		next, err = p.scan(ctx, from)
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	p.note(next, err)
	if err != nil {
		return 0, err
	}
	return next, p.view.problem
}

// note says how well the rail is observed after a pass.
func (p *pass) note(next uint64, err error) {
	p.chain.tellDepth(p.view)
	p.quiet = nil
	if err == nil && next == 0 {
		p.quiet = p.place()
	}
	p.take(outcome{
		view: p.view, err: err, through: p.through, partial: p.partial || next != 0, closed: p.closed, head: p.head,
	})
}

// outcome is what came of a look at the chain.
type outcome struct {
	view *view
	err  error
	// through is the block up to which logs were read, 0 for none, and partial says
	// that something up to there stayed open.
	through uint64
	partial bool
	// closed says that all was read up to head, with nothing open there.
	closed bool
	head   *block
	// since is from when on all was read, in Unix seconds, where that was not known
	// before; 0 where it still is not.
	since int64
}

// take says by an outcome how well the rail is observed.
func (e *Observer) take(o outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if o.err == nil || source.Code(o.err) == observe.ErrHistory {
		e.history = o.err
	}
	e.since = cmp.Or(e.since, o.since) // what Covered says
	if o.closed && o.head != nil {
		e.upTo, e.seen = e.seen, o.head
	}
	now := e.config.Now().Unix()
	e.health.Blind = o.err != nil
	e.health.Partial = o.err != nil || o.partial || len(o.view.readers) < observe.Needed(len(e.endpoints))
	e.health.LastError = source.Code(cmp.Or(o.err, o.view.problem))
	if o.through > 0 {
		e.health.ObservedThrough = fmt.Sprintf("block %d", o.through)
		e.health.At = min(o.view.headTime, now)
		if o.err == nil && now-o.view.headTime > staleAfter {
			e.health.Partial, e.health.LastError = true, cmp.Or(e.health.LastError, observe.ErrLagging)
		}
	}
}

// record commits what was seen. What the ledger refuses for good is missing in
// the sums.
func (p *pass) record(ctx context.Context, cursor *ledger.Cursor, sightings []ledger.Sighting) error {
	if cursor != nil {
		cursor.Upon = &p.standing
	}
	refused, err := observe.Record(ctx, p.config.Ledger, cursor, sightings...)
	if len(refused) > 0 {
		p.unsure(&observe.Error{Code: observe.ErrBadAnswer, Host: p.hosts()})
	}
	if err == nil && cursor != nil {
		p.cursor, p.standing = cursor, cursor.Position
		var number int64
		number, err = observe.Position(cursor.Position)
		p.covered = max(p.covered, uint64(number))
	}
	return err
}

// unsure keeps a problem because of which not all money may be known.
func (p *pass) unsure(err error) {
	p.partial, p.open = true, true
	p.view.trouble(err)
}

// hosts names the endpoints.
func (e *Observer) hosts() string { return e.chain.hosts() }
