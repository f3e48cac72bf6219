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
	// stepsAtOnce is how many ranges are scanned before the known receipts are followed again.
	stepsAtOnce = 16
	// queriesAtOnce is how many queries of an endpoint make a range. Each range is committed before the next.
	queriesAtOnce = 16
)

// anchor reads the cursor and requires that the endpoints still show its block. While they show another one, nothing
// is recorded.
func (p *cycle) anchor(ctx context.Context) error {
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
	p.cursor, p.covered, p.storedPosition = &cursor, uint64(number), cursor.Position
	return p.view.anchored(ctx, p.covered, cursor.Anchor)
}

// cursorAt returns a cursor at a final block, or nil if it is not further or the endpoints do not agree on its hash.
func (p *cycle) cursorAt(ctx context.Context, number uint64) *ledger.Cursor {
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

// scan reads every Transfer log up to the head, from the given block or the first one that is not recorded and
// final. It returns the block at which to continue, or 0.
func (p *cycle) scan(ctx context.Context, from uint64) (next uint64, err error) {
	origin, err := p.origin(ctx)
	if err != nil {
		return 0, err
	}
	p.covered, p.storedOrigin = max(p.covered, origin), strconv.FormatUint(origin, 10)
	p.startWatermark(ctx)
	low := max(p.covered+1, from)
	first := low
	p.through = min(low-1, p.view.head)
	// The cursor moves only if nothing before is undecided.
	complete := low == p.covered+1
	for step := 0; low <= p.view.head; step++ {
		if step == stepsAtOnce {
			return low, nil
		}
		high := min(low+min(queriesAtOnce*p.view.span(), spanMost)-1, p.view.head)
		through, whole, err := p.step(ctx, low, high, complete)
		if err != nil && low > first && source.Code(err) == observe.ErrLimited {
			// A later cycle reads the rest.
			p.markPartial(err)
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		complete = complete && whole
		p.through, low = through, through+1
	}
	p.complete = complete && !p.uncertain
	return 0, nil
}

// step scans one range and records it with its cursor. through is the last block read. whole is false if a payment
// is undecided.
func (p *cycle) step(ctx context.Context, low, high uint64, complete bool) (through uint64, whole bool, err error) {
	found, err := p.findPayments(ctx, low, high)
	if err != nil {
		return 0, false, err
	}
	var cursor *ledger.Cursor
	if complete {
		cursor = p.cursorAt(ctx, min(found.sure, p.view.final))
	}
	err = p.record(ctx, cursor, found.observations)
	return found.through, found.sure == found.through, err
}

// discovery contains what was found in a range of blocks.
type discovery struct {
	observations []ledger.Observation
	// through is the last block that was read, and sure the last one up to which everything is decided.
	through, sure uint64
}

func (p *cycle) findPayments(ctx context.Context, low, high uint64) (discovery, error) {
	paid, err := p.read(ctx, low, high)
	if err != nil {
		return discovery{}, err
	}
	p.loadTallies(ctx, paid.transactions)
	found := discovery{through: paid.through, sure: paid.through}
	if !paid.whole {
		found.sure = low - 1
	}
	inOrder := slices.SortedFunc(maps.Keys(paid.transactions), func(a, b common.Hash) int {
		return cmp.Or(cmp.Compare(paid.transactions[a], paid.transactions[b]), a.Cmp(b))
	})
	for _, transaction := range inOrder {
		observations, sure := p.decideNew(transaction)
		if !sure {
			p.partial = true
			found.sure = min(found.sure, paid.transactions[transaction]-1)
		}
		found.observations = append(found.observations, observations...)
	}
	p.busy = p.busy || len(found.observations) > 0 || found.sure < found.through
	return found, nil
}

// decideNew decides on the movements of a transaction without receipts; sure says that all are decided.
func (p *cycle) decideNew(transaction common.Hash) (observations []ledger.Observation, sure bool) {
	t := p.tallies[transaction]
	p.view.addProblem(t.failed)
	sure = len(t.candidates) > 0
	if !sure && t.failed == nil && t.behind == 0 {
		// A log without a transaction.
		p.view.addProblem(&observe.Error{Code: observe.ErrDisagree, Host: p.hosts()})
	}
	for _, c := range t.candidates {
		id := p.externalID(transaction, c.ordinal)
		if _, before := p.decided[id]; !before {
			if s := p.decide(nil, id, transaction, c.ordinal); s != nil {
				if s.OccurredAt < p.watchedSince {
					s.Cause = ledger.CauseBackfilled
				}
				observations = append(observations, *s)
			}
		}
		sure = sure && p.decided[id]
	}
	return observations, sure
}

// payments are the transactions that pay the rail, with their blocks.
type payments struct {
	collected
	transactions map[common.Hash]uint64
}

func (p *cycle) read(ctx context.Context, low, high uint64) (payments, error) {
	to := wordOf(p.payTo)
	s, err := p.view.collectLogs(ctx, filter{p.token, []any{topicTransfer, nil, to}}, low, high)
	if err == nil && !s.whole {
		p.markPartial(s.problem)
	}
	paid := payments{s, make(map[common.Hash]uint64)}
	for _, l := range s.logs {
		if _, to, amount, ok := p.chain.transfer(&l); !ok || to != p.payTo || amount < dust {
			continue
		}
		// If endpoints show different blocks, the lowest one counts.
		number, known := paid.transactions[l.Transaction]
		if !known || uint64(l.BlockNumber) < number {
			paid.transactions[l.Transaction] = uint64(l.BlockNumber)
		}
	}
	return paid, err
}
