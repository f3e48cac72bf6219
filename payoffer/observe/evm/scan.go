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
)

// stepsAtOnce is how many ranges of spanMost blocks are scanned before the
// receipts that are known are followed again.
const stepsAtOnce = 16

// anchor reads the cursor, which stands at a final block, and requires that
// the endpoints still show that block. While they show another one, nothing
// they say is recorded: history has changed, or this is another chain.
func (p *pass) anchor(ctx context.Context) error {
	cursor, found, err := observe.Cursor(ctx, p.config.Ledger, p.config.OfferID, p.account)
	if err != nil || !found || cursor.Position == "" {
		return err
	}
	if p.covered, err = strconv.ParseUint(cursor.Position, 10, 64); err != nil {
		return observe.ErrNoLedger
	}
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

// origin is the last block whose money is not counted. The first time it is
// the head on which enough endpoints agree, unless one was configured.
func (p *pass) origin(ctx context.Context) (uint64, error) {
	first := int64(-1)
	switch {
	case p.config.FromBlock > 0:
		first = int64(p.config.FromBlock - 1)
	case p.view.quorum():
		first = int64(p.view.head)
	}
	origin, err := observe.Origin(ctx, p.config.Ledger, p.config.OfferID, p.account, first)
	if err == nil && origin < 0 {
		err = p.view.problem
	}
	return uint64(origin), err
}

// agreed is the block of which enough endpoints show the same hash, or nil.
func (p *pass) agreed(show func(*reader) (*block, error)) *block {
	votes := make(map[common.Hash]int)
	for _, r := range p.view.readers {
		b, err := show(r)
		if err != nil || b == nil {
			continue
		}
		if votes[b.Hash]++; votes[b.Hash] >= p.view.need {
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
	p.through = min(low-1, p.view.head)
	// The cursor goes on only where nothing was left open before.
	closed := low == p.covered+1
	for step := 0; low <= p.view.head; step++ {
		if step == stepsAtOnce {
			return low, nil
		}
		high := min(low+spanMost-1, p.view.head)
		whole, err := p.step(ctx, low, high, closed)
		if err != nil {
			return 0, err
		}
		closed = closed && whole
		p.through, low = high, high+1
	}
	p.closed = closed
	return 0, nil
}

// step scans one range and records what it holds, together with the cursor
// that covers it. whole is false when something in it is still open.
func (p *pass) step(ctx context.Context, low, high uint64, closed bool) (whole bool, err error) {
	paid, err := p.read(ctx, low, high)
	if err != nil {
		return false, err
	}
	p.ask(ctx, paid.transactions)
	end := high
	var sightings []ledger.Sighting
	for _, transaction := range paid.sorted() {
		found, sure := p.discover(transaction)
		if !sure {
			p.partial = true
			end = min(end, paid.transactions[transaction]-1)
		}
		sightings = append(sightings, found...)
	}
	var cursor *ledger.Cursor
	if closed && paid.whole {
		cursor = p.cursorAt(ctx, min(end, p.view.final))
	}
	if err := p.record(ctx, cursor, sightings); err != nil {
		return false, err
	}
	if cursor != nil {
		p.covered = min(end, p.view.final)
	}
	return paid.whole && end == high, nil
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
	transactions map[common.Hash]uint64
	// whole says that enough endpoints were read to the end.
	whole bool
}

// sorted lists them as they stand on the chain.
func (p payments) sorted() []common.Hash {
	return slices.SortedFunc(maps.Keys(p.transactions), func(a, b common.Hash) int {
		return cmp.Or(cmp.Compare(p.transactions[a], p.transactions[b]), a.Cmp(b))
	})
}

// read collects the logs of a range from all endpoints that have reached it:
// what one hides another shows.
func (p *pass) read(ctx context.Context, low, high uint64) (payments, error) {
	to := wordOf(p.payTo)
	wanted := filter{p.token, []*common.Hash{&topicTransfer, nil, &to}}
	logs, errs := each(p.view.readers, func(r *reader) ([]log, error) {
		if uint64(r.latest.Number) < high {
			return nil, &observe.Error{Code: observe.ErrLagging, Host: r.host}
		}
		return r.logs(ctx, wanted, low, high)
	})
	paid := payments{transactions: make(map[common.Hash]uint64)}
	read := 0
	for i := range logs {
		if errs[i] != nil {
			continue
		}
		read++
		for _, l := range logs[i] {
			number, known := paid.transactions[l.Transaction]
			if _, amount, ok := p.transfer(&l); ok && amount >= dust && (!known || uint64(l.BlockNumber) < number) {
				paid.transactions[l.Transaction] = uint64(l.BlockNumber)
			}
		}
	}
	if err := cmp.Or(errs...); read == 0 {
		return paid, err
	} else if paid.whole = read >= p.view.need; !paid.whole {
		p.unsure(cmp.Or(err, p.view.problem))
	}
	return paid, nil
}
