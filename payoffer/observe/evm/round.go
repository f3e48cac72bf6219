package evm

import (
	"cmp"
	"context"
	"fmt"
	"strings"
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

// Run reads the chain round by round until ctx ends. What is wrong is logged
// when it changes. It may be called again afterwards.
func (e *Observer) Run(ctx context.Context) {
	loop := source.Loop{Round: e.next}
	loop.Run(ctx)
}

// next is a round, and the time to the one after it: several observers of one
// endpoint do not ask at the same moment.
func (e *Observer) next(ctx context.Context) (time.Duration, error) {
	err := e.Round(ctx)
	if ctx.Err() != nil {
		return 0, err
	}
	e.report(err)
	if e.wait = min(2*e.wait, watchRarely); err == nil || !e.Health().Blind {
		e.wait = watchEvery
	}
	return source.Spread(e.wait, e.config.Random()), err
}

// report logs what has changed since the last round. Loop would tell of codes
// alone: here another host is another trouble, for with the last one the rail
// becomes blind.
func (e *Observer) report(err error) {
	before, log := e.trouble, e.config.Logger
	e.trouble = ""
	if err != nil {
		e.trouble = err.Error()
	}
	switch {
	case e.trouble == before:
	case err == nil:
		log.Info("the chain can be read again")
	case source.Code(err) == observe.ErrHistory:
		log.Error("what was final on the chain has changed, or the endpoints show another chain; nothing is recorded until they "+
			"show it again: check the rpc endpoints of this rail", "error", e.trouble)
	case e.Health().Blind:
		log.Warn("the chain cannot be read; its receipts wait", "error", e.trouble)
	default:
		log.Warn("the chain can be read in part", "error", e.trouble)
	}
	if e.deep && !e.deepTold {
		e.deepTold = true
		log.Warn("an RPC endpoint has no safe or finalized blocks; those far below its head count as such", "blocks", deepBlocks)
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
	// back is the block up to which there is more to be read after the origin, -1
	// for none, and filling says that some of it is left.
	back    int64
	filling bool
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
}

// pass follows what is known and scans from a block; 0 means after the cursor.
// next is where to go on, 0 when the head was reached.
func (e *Observer) pass(ctx context.Context, from uint64) (next uint64, err error) {
	p := &pass{Observer: e, decided: make(map[string]bool), tallies: make(map[common.Hash]tally)}
	p.view, err = e.look(ctx)
	if reached, agreed := p.view.reached(); agreed {
		e.config.HeadTime(reached)
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil || source.Code(err) == observe.ErrHistory {
		p.history = err
	}
	p.extend()
	p.health.Blind = err != nil
	p.health.Partial = err != nil || p.partial || p.filling || next != 0 || !p.view.quorum()
	p.health.LastError = source.Code(cmp.Or(err, p.view.problem))
	for _, r := range p.view.readers {
		p.deep = p.deep || r.deep
	}
	if p.through > 0 {
		p.health.ObservedThrough = fmt.Sprintf("block %d", p.through)
		p.health.At = min(p.view.headTime, p.config.Now().Unix())
		if err == nil && p.config.Now().Unix()-p.view.headTime > staleAfter {
			p.health.Partial, p.health.LastError = true, cmp.Or(p.health.LastError, observe.ErrLagging)
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
		number, err = position(cursor.Position)
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
func (e *Observer) hosts() string {
	var hosts []string
	for _, endpoint := range e.endpoints {
		hosts = append(hosts, endpoint.host)
	}
	return strings.Join(hosts, ", ")
}
