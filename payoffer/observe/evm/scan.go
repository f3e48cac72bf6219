package evm

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// stepsAtOnce is how many ranges of spanMost blocks are scanned before the
// receipts that are known are followed again.
const stepsAtOnce = 16

// scan reads every Transfer log after what the ledger holds for good, and from
// a block, up to the head. It returns where to go on, or 0.
func (p *pass) scan(ctx context.Context, from uint64) (next uint64, err error) {
	origin, err := p.origin(ctx)
	if err != nil {
		return 0, err
	}
	p.covered = max(p.covered, origin)
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
	return 0, nil
}

// step scans one range and records what it holds, together with the cursor
// that covers it. whole is false when something in it is still open.
func (p *pass) step(ctx context.Context, low, high uint64, closed bool) (whole bool, err error) {
	paid, err := p.read(ctx, low, high)
	if err != nil {
		return false, err
	}
	unasked := maps.Clone(paid.transactions)
	maps.DeleteFunc(unasked, func(transaction common.Hash, _ uint64) bool {
		_, asked := p.tallies[transaction]
		return asked
	})
	p.ask(ctx, unasked)
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
	if t.failed != nil {
		p.view.trouble(t.failed)
	}
	sure = len(t.candidates) > 0
	if !sure && t.failed == nil && t.behind == 0 {
		p.contested() // a log without a transaction
	}
	for _, c := range t.candidates {
		id := p.externalID(transaction, c.ordinal)
		if _, before := p.decided[id]; !before {
			d := p.decide(p.view, nil, transaction, c.ordinal, t)
			p.decided[id] = d.sure
			if d.contested {
				p.contested()
			}
			if d.sighting != nil {
				sightings = append(sightings, *d.sighting)
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
	logs, errs := make([][]log, len(p.view.readers)), make([]error, len(p.view.readers))
	var work sync.WaitGroup
	for i, r := range p.view.readers {
		if uint64(r.latest.Number) < high {
			errs[i] = &observe.Error{Code: observe.ErrLagging, Host: r.host}
			continue
		}
		work.Go(func() { logs[i], errs[i] = r.logs(ctx, wanted, low, high) })
	}
	work.Wait()
	paid := payments{transactions: make(map[common.Hash]uint64)}
	read := 0
	for i := range logs {
		if errs[i] != nil {
			continue
		}
		read++
		for _, l := range logs[i] {
			number, known := paid.transactions[l.Transaction]
			if p.money(&l) && (!known || uint64(l.BlockNumber) < number) {
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
