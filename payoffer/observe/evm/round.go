package evm

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
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

// Rows is what the observer needs of the ledger; *ledger.Ledger is one.
type Rows interface {
	Unfinal(ctx context.Context, offer, account string, limit int) ([]ledger.Receipt, error)
	Cursor(ctx context.Context, offer, account string) (ledger.Cursor, bool, error)
	SetOrigin(ctx context.Context, offer, account, origin string) (stored string, err error)
	Record(ctx context.Context, cursor *ledger.Cursor, sightings ...ledger.Sighting) ([]ledger.Receipt, error)
}

// Watch reads the chain round by round until ctx ends. What is wrong is logged
// when it changes.
func (e *Observer) Watch(ctx context.Context, rows Rows, log *slog.Logger) {
	log = log.With("rail", e.usdc.Name(), "network", e.usdc.Network.CAIP2())
	trouble, deep, wait := "", false, watchEvery
	for {
		err := e.Round(ctx, rows)
		if ctx.Err() != nil {
			return
		}
		trouble = e.report(log, trouble, err)
		if !deep && e.standsDeep() {
			deep = true
			log.Warn("an RPC endpoint has no safe or finalized blocks; those far below its head count as such", "blocks", deepBlocks)
		}
		if wait = min(2*wait, watchRarely); err == nil || !e.Health().Blind {
			wait = watchEvery
		}
		// Several observers of one endpoint do not ask at the same moment.
		timer := time.NewTimer(wait - rand.N(wait/8))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// report logs what has changed since the trouble of the last round.
func (e *Observer) report(log *slog.Logger, before string, err error) (trouble string) {
	if err != nil {
		trouble = err.Error()
	}
	switch {
	case trouble == before:
	case err == nil:
		log.Info("the chain can be read again")
	case code(err) == observe.ErrHistory:
		log.Error("what was final on the chain has changed, or the endpoints show another chain; nothing is recorded until they "+
			"show it again: check the rpc endpoints of this rail", "error", trouble)
	case e.Health().Blind:
		log.Warn("the chain cannot be read; its receipts wait", "error", trouble)
	default:
		log.Warn("the chain can be read in part", "error", trouble)
	}
	return trouble
}

// standsDeep says whether an endpoint lacked the tags of finality.
func (e *Observer) standsDeep() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.deep
}

// Round reads the chain once: the receipts that are not final, and every
// Transfer log since the last final block. It catches up with all that was
// missed. The error is the first problem met; what could be read in spite of
// it is recorded, and Health says whether that was all. It is not for
// concurrent use.
func (e *Observer) Round(ctx context.Context, rows Rows) error {
	for from := uint64(0); ; {
		next, err := e.pass(ctx, rows, from, !e.followOnly)
		if next == 0 {
			return err
		}
		from = next
	}
}

// Follow is the part of a Round about receipts that are known: confirmed at
// the configured level, dropped when their transaction left the chain, seen
// again when it came back. It is not for concurrent use.
func (e *Observer) Follow(ctx context.Context, rows Rows) error {
	_, err := e.pass(ctx, rows, 0, false)
	return err
}

// pass is one look at the chain.
type pass struct {
	*Observer
	view *view
	rows Rows

	// covered is the block up to which the ledger holds everything for good.
	covered uint64
	// through is the block up to which the logs were read.
	through uint64
	// decided says of the movements that were decided on whether that was sure.
	decided map[string]bool
	// tallies are those of this pass.
	tallies map[common.Hash]tally
	// partial says that something stayed open.
	partial bool
}

// pass follows what is known and scans from a block; 0 means after the cursor.
// next is where to go on, 0 when the head was reached.
func (e *Observer) pass(ctx context.Context, rows Rows, from uint64, scan bool) (next uint64, err error) {
	p := &pass{Observer: e, rows: rows, decided: make(map[string]bool), tallies: make(map[common.Hash]tally)}
	p.view, err = e.look(ctx)
	if err == nil {
		err = p.anchor(ctx)
	}
	if err == nil {
		err = p.follow(ctx)
	}
	if err == nil && scan {
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
	if err == nil || code(err) == observe.ErrHistory {
		p.history = err
	}
	p.health.Blind = err != nil
	p.health.Partial = err != nil || p.partial || next != 0 || !p.view.quorum()
	p.health.LastError = code(cmp.Or(err, p.view.problem))
	for _, r := range p.view.readers {
		p.deep = p.deep || r.deep
	}
	if p.through > 0 {
		p.health.ObservedThrough = fmt.Sprintf("block %d", p.through)
		p.health.At = min(p.view.headTime, p.now().Unix())
		if err == nil && p.now().Unix()-p.view.headTime > staleAfter {
			p.health.Partial, p.health.LastError = true, cmp.Or(p.health.LastError, observe.ErrLagging)
		}
	}
}

// record commits what was seen. What the ledger refuses for good is missing in
// the sums.
func (p *pass) record(ctx context.Context, cursor *ledger.Cursor, sightings []ledger.Sighting) error {
	refused, err := observe.Record(ctx, p.rows, cursor, sightings...)
	if err != nil {
		return errLedger
	}
	if len(refused) > 0 {
		p.unsure(&observe.Error{Code: observe.ErrBadAnswer, Host: p.hosts()})
	}
	return nil
}

// errLedger is a ledger that cannot be read or written.
var errLedger = &observe.Error{Code: observe.ErrLedger, Host: "ledger"}

// unsure keeps a problem because of which not all money may be known.
func (p *pass) unsure(err error) {
	p.partial = true
	p.view.trouble(err)
}

// contested keeps that endpoints contradict each other.
func (p *pass) contested() {
	p.view.trouble(&observe.Error{Code: observe.ErrDisagree, Host: p.hosts()})
}

// hosts names the endpoints.
func (e *Observer) hosts() string {
	var hosts []string
	for _, endpoint := range e.endpoints {
		hosts = append(hosts, endpoint.host)
	}
	return strings.Join(hosts, ", ")
}
