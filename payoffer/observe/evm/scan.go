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
	cursor, found, err := observe.Cursor(ctx, p.config.Ledger, p.config.OfferID, p.account)
	if err != nil || !found || cursor.Position == "" {
		return err
	}
	number, err := position(cursor.Position)
	if err != nil {
		return err
	}
	p.cursor, p.covered, p.standing = &cursor, uint64(number), cursor.Position
	same, other, behind := 0, make(map[*reader]error), make(map[*reader]error)
	for _, r := range p.view.readers {
		b, err := r.blockOnce(ctx, p.covered)
		switch {
		case err != nil:
			behind[r] = err
		case b == nil:
			behind[r] = &observe.Error{Code: observe.ErrLagging, Host: r.host}
		case b.Hash == common.HexToHash(cursor.Anchor):
			same++
		default:
			other[r] = &observe.Error{Code: observe.ErrDisagree, Host: r.host}
		}
	}
	if len(other) >= p.view.need || same == 0 && len(other) > 0 {
		return &observe.Error{Code: observe.ErrHistory, Host: p.hosts()}
	}
	p.view.leaveOut(other)
	p.view.leaveOut(behind)
	return p.view.usable()
}

// agreed is the block of which enough endpoints show the same hash and time, or
// nil.
func (p *pass) agreed(show func(*reader) (*block, error)) *block {
	votes := make(map[block]int)
	for _, r := range p.view.readers {
		b, err := show(r)
		if err != nil || b == nil {
			continue
		}
		if votes[*b]++; votes[*b] >= p.view.need {
			return b
		}
	}
	return nil
}

// cursorAt makes the cursor at a final block, or none when that is no news or
// the endpoints do not agree on its hash.
func (p *pass) cursorAt(ctx context.Context, number uint64) *ledger.Cursor {
	if number <= p.covered {
		return nil
	}
	b := p.agreed(func(r *reader) (*block, error) { return r.blockOnce(ctx, number) })
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
		high := min(low+min(queriesAtOnce*p.span(), spanMost)-1, p.view.head)
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
	p.fill(ctx, origin)
	return 0, nil
}

// span is how many blocks the endpoint that takes the fewest is asked for.
func (p *pass) span() uint64 {
	smallest := uint64(spanMost)
	for _, r := range p.view.readers {
		smallest = min(smallest, r.span.size())
	}
	return smallest
}

// step scans one range and records what it holds, together with the cursor
// that covers it. through is the block up to which it was read, and whole is false
// when something up to there is still open.
func (p *pass) step(ctx context.Context, low, high uint64, closed bool) (through uint64, whole bool, err error) {
	found, err := p.find(ctx, low, high, causeChain)
	if err != nil {
		return 0, false, err
	}
	var cursor *ledger.Cursor
	if closed {
		cursor, err = p.cover(ctx, min(found.sure, p.view.final), found.sightings)
	}
	if err == nil {
		err = p.record(ctx, cursor, found.sightings)
	}
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
func (p *pass) find(ctx context.Context, low, high uint64, cause string) (discovery, error) {
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
		sightings, sure := p.discover(transaction, cause)
		if !sure {
			p.partial = true
			found.sure = min(found.sure, paid.transactions[transaction]-1)
		}
		found.sightings = append(found.sightings, sightings...)
	}
	return found, nil
}

// discover decides on the movements of a transaction that are no receipts yet.
// It is sure when all are, also those that were decided on before.
func (p *pass) discover(transaction common.Hash, cause string) (sightings []ledger.Sighting, sure bool) {
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
				if s.Cause = cause; s.OccurredAt < p.watchedSince {
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
	s, err := p.sweep(ctx, filter{p.token, []*common.Hash{&topicTransfer, nil, &to}}, low, high, queriesAtOnce)
	paid := payments{s, make(map[common.Hash]uint64)}
	for _, l := range s.logs {
		if _, to, amount, ok := p.transfer(&l); ok && to == p.payTo && amount >= dust {
			paid.add(&l)
		}
	}
	return paid, err
}

// add keeps a transaction in the lowest of the blocks where it is shown.
func (p payments) add(l *log) {
	number, known := p.transactions[l.Transaction]
	if !known || uint64(l.BlockNumber) < number {
		p.transactions[l.Transaction] = uint64(l.BlockNumber)
	}
}

// swept is what the endpoints show of a range.
type swept struct {
	logs []log
	// through is the block up to which it was read, by enough endpoints where
	// whole, else by one.
	through uint64
	whole   bool
}

// sweep collects the logs of a range from all endpoints that have reached it:
// what one hides another shows. Each is asked so many queries at most.
func (p *pass) sweep(ctx context.Context, f filter, low, high uint64, queries int) (s swept, err error) {
	parts, errs := each(p.view.readers, func(r *reader) (part swept, err error) {
		if uint64(r.latest.Number) < high {
			return swept{through: low - 1}, &observe.Error{Code: observe.ErrLagging, Host: r.host}
		}
		part.logs, part.through, err = r.logs(ctx, f, low, high, queries)
		return part, err
	})
	slices.SortFunc(parts, func(a, b swept) int { return cmp.Compare(b.through, a.through) })
	s.through = parts[0].through
	if need := p.view.need; len(parts) >= need && parts[need-1].through >= low {
		s.through, s.whole = parts[need-1].through, true
	}
	if s.through < low {
		return s, cmp.Or(errs...)
	}
	if !s.whole {
		p.unsure(cmp.Or(cmp.Or(errs...), p.view.problem))
	} else if s.through < high {
		p.view.trouble(cmp.Or(errs...))
	}
	for _, part := range parts {
		for _, l := range part.logs {
			if uint64(l.BlockNumber) <= s.through {
				s.logs = append(s.logs, l)
			}
		}
	}
	return s, nil
}
