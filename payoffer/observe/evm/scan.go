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

const (
	// stepsAtOnce is how many ranges are scanned before the receipts that are
	// known are followed again.
	stepsAtOnce = 16
	// queriesAtOnce is how many queries of an endpoint make a range: what it
	// holds is committed before the next one is read.
	queriesAtOnce = 16
)

// anchor reads the cursor, which stands at a final block, and requires that
// the endpoints still show that block. While they show another one, nothing
// they say is recorded: history has changed, or this is another chain.
func (p *pass) anchor(ctx context.Context) error {
	if err := p.lowerOrigin(ctx); err != nil {
		return err
	}
	cursor, found, err := observe.Cursor(ctx, p.config.Ledger, p.config.OfferID, p.account)
	if err != nil || !found || cursor.Position == "" {
		return err
	}
	number, err := observe.Position(cursor.Position)
	if err != nil {
		return err
	}
	p.cursor, p.covered, p.standing = &cursor, uint64(number), cursor.Position
	return p.view.anchored(ctx, p.covered, cursor.Anchor)
}

// cursorAt makes the cursor at a final block, or none when that is no news or
// the endpoints do not agree on its hash.
func (p *pass) cursorAt(ctx context.Context, number uint64) *ledger.Cursor {
	if number <= p.covered {
		return nil
	}
	b := p.view.same(func(r *reader) (*block, error) { return r.blockOnce(ctx, number) })
	if b == nil {
		return nil
	}
	return &ledger.Cursor{
		Offer: p.config.OfferID, Account: p.account, Position: strconv.FormatUint(number, 10), Anchor: b.Hash.Hex(), OKAt: p.config.Now().Unix(),
	}
}

// scan reads every Transfer log after what the ledger holds for good, and from
// a block, up to the head. It returns where to go on, or 0.
func (p *pass) scan(ctx context.Context, from uint64) (next uint64, err error) {
	origin, err := p.origin(ctx)
	if err != nil {
		return 0, err
	}
	p.covered = max(p.covered, origin)
	p.begin(ctx)
	low := max(p.covered+1, from)
	first := low
	p.through = min(low-1, p.view.head)
	// The cursor goes on only where nothing was left open before.
	closed := low == p.covered+1
	for step := 0; low <= p.view.head; step++ {
		if step == stepsAtOnce {
			return low, nil
		}
		high := min(low+min(queriesAtOnce*p.view.span(), spanMost)-1, p.view.head)
		through, whole, err := p.step(ctx, low, high, closed)
		if err != nil && low > first && source.Code(err) == observe.ErrLimited {
			// What was read so far is there, and the rest is read when it is wanted.
			p.unsure(err)
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		closed = closed && whole
		p.through, low = through, through+1
	}
	p.closed = closed && !p.open
	return 0, nil
}

// step scans one range and records what it holds, together with the cursor
// that covers it. through is the block up to which it was read, and whole is false
// when something up to there is still open.
func (p *pass) step(ctx context.Context, low, high uint64, closed bool) (through uint64, whole bool, err error) {
	found, err := p.find(ctx, low, high)
	if err != nil {
		return 0, false, err
	}
	var cursor *ledger.Cursor
	if closed {
		cursor = p.cursorAt(ctx, min(found.sure, p.view.final))
	}
	err = p.record(ctx, cursor, found.sightings)
	return found.through, found.sure == found.through, err
}

// discovery is what was read in a range of blocks.
type discovery struct {
	sightings []ledger.Sighting
	// through is the block up to which the range was read, and sure the one up to
	// which nothing is open.
	through, sure uint64
}

// find reads a range and decides on what it holds.
func (p *pass) find(ctx context.Context, low, high uint64) (discovery, error) {
	paid, err := p.read(ctx, low, high)
	if err != nil {
		return discovery{}, err
	}
	p.ask(ctx, paid.transactions)
	found := discovery{through: paid.through, sure: paid.through}
	if !paid.whole {
		found.sure = low - 1
	}
	for _, transaction := range paid.sorted() {
		sightings, sure := p.discover(transaction)
		if !sure {
			p.partial = true
			found.sure = min(found.sure, paid.transactions[transaction]-1)
		}
		found.sightings = append(found.sightings, sightings...)
	}
	p.busy = p.busy || len(found.sightings) > 0 || found.sure < found.through
	return found, nil
}

// discover decides on the movements of a transaction that are no receipts yet.
// It is sure when all are, also those that were decided on before.
func (p *pass) discover(transaction common.Hash) (sightings []ledger.Sighting, sure bool) {
	t := p.tallies[transaction]
	p.view.trouble(t.failed)
	sure = len(t.candidates) > 0
	if !sure && t.failed == nil && t.behind == 0 {
		// A log without a transaction.
		p.view.trouble(&observe.Error{Code: observe.ErrDisagree, Host: p.hosts()})
	}
	for _, c := range t.candidates {
		id := p.externalID(transaction, c.ordinal)
		if _, before := p.decided[id]; !before {
			if s := p.decide(nil, id, transaction, c.ordinal); s != nil {
				if s.OccurredAt < p.watchedSince {
					s.Cause = ledger.CauseBackfilled
				}
				sightings = append(sightings, *s)
			}
		}
		sure = sure && p.decided[id]
	}
	return sightings, sure
}

// payments are the transactions that logs show to have paid the rail, with
// their blocks.
type payments struct {
	swept
	transactions map[common.Hash]uint64
}

// sorted lists them as they stand on the chain.
func (p payments) sorted() []common.Hash {
	return slices.SortedFunc(maps.Keys(p.transactions), func(a, b common.Hash) int {
		return cmp.Or(cmp.Compare(p.transactions[a], p.transactions[b]), a.Cmp(b))
	})
}

// read collects the payments of a range.
func (p *pass) read(ctx context.Context, low, high uint64) (payments, error) {
	to := wordOf(p.payTo)
	s, err := p.view.sweep(ctx, filter{p.token, []any{topicTransfer, nil, to}}, low, high)
	if err == nil && !s.whole {
		p.unsure(s.problem)
	}
	paid := payments{s, make(map[common.Hash]uint64)}
	for _, l := range s.logs {
		if _, to, amount, ok := p.transfer(&l); !ok || to != p.payTo || amount < dust {
			continue
		}
		// A transaction is kept in the lowest of the blocks that show it.
		number, known := paid.transactions[l.Transaction]
		if !known || uint64(l.BlockNumber) < number {
			paid.transactions[l.Transaction] = uint64(l.BlockNumber)
		}
	}
	return paid, err
}
