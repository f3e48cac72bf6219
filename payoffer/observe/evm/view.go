package evm

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"golang.org/x/sync/singleflight"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

// stalledAfter is how long an endpoint's head may stay the same while another one's is higher.
const stalledAfter = time.Minute

// reader is an endpoint with what it answered in one view.
type reader struct {
	*endpoint
	latest, confirm, final *block
	// deep means that a block far below the head replaces a missing tag.
	deep bool
	// blocks are those read in this view, by number. Concurrent callers share one reading.
	blocks  sync.Map
	reading singleflight.Group
}

// each runs ask for all in parallel.
func each[S, R any](of []S, ask func(S) (R, error)) ([]R, []error) {
	answers, errs := make([]R, len(of)), make([]error, len(of))
	var work sync.WaitGroup
	for i, one := range of {
		work.Go(func() { answers[i], errs[i] = ask(one) })
	}
	work.Wait()
	return answers, errs
}

// heads reads the endpoint's heads, before anything else.
func (e *endpoint) heads(ctx context.Context, confirm Level) (*reader, error) {
	blocks, errs := each([]Level{Latest, confirm, Finalized}, func(level Level) (*block, error) { return e.tag(ctx, level) })
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	if blocks[0] == nil {
		return nil, e.bad()
	}
	r := &reader{endpoint: e, latest: blocks[0], confirm: blocks[1], final: blocks[2]}
	if confirm == Latest {
		r.confirm = r.latest
	}
	if r.confirm != nil && r.final != nil {
		return r, nil
	}
	r.deep = true
	below, err := e.block(ctx, uint64(r.latest.Number)-min(deepBlocks, uint64(r.latest.Number)))
	if err == nil && below == nil {
		err = e.bad()
	}
	if r.confirm == nil {
		r.confirm = below
	}
	if r.final == nil {
		r.final = below
	}
	return r, err
}

// tag reads the block at a level; nil if the endpoint does not know the tag. If it knew it once, that is a failure.
func (e *endpoint) tag(ctx context.Context, level Level) (*block, error) {
	b, err := e.blockAt(ctx, string(level))
	if err != nil && (!errors.As(err, new(rpcError)) || source.Code(err) == observe.ErrLimited) {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if b != nil {
		e.tagged[level] = true
		return b, nil
	}
	if e.tagged[level] {
		return nil, cmp.Or(err, e.bad())
	}
	return nil, nil
}

func (r *reader) blockOnce(ctx context.Context, number uint64) (*block, error) {
	b, err, shared := r.reading.Do(strconv.FormatUint(number, 10), func() (any, error) {
		if known, read := r.blocks.Load(number); read {
			return known, nil
		}
		return r.rereadBlock(ctx, number)
	})
	if err != nil && shared {
		return r.rereadBlock(ctx, number) // the context of the caller that read may have ended
	}
	return b.(*block), err
}

func (r *reader) rereadBlock(ctx context.Context, number uint64) (*block, error) {
	b, err := r.block(ctx, number)
	if err == nil {
		r.blocks.Store(number, b)
	}
	return b, err
}

// placed is a receipt and its block on the chain.
type placed struct {
	*receipt
	block *block
}

// canonical reads a transaction's receipt if its block is on the chain; nil for none.
func (r *reader) canonical(ctx context.Context, transaction common.Hash) (*placed, error) {
	if known := r.remembered(transaction); known != nil {
		b, err := r.blockOnce(ctx, uint64(known.BlockNumber))
		if err != nil {
			return nil, err
		}
		if b != nil && b.Hash == known.BlockHash {
			return &placed{known, b}, nil
		}
	}
	got, err := r.receipt(ctx, transaction)
	if err != nil || got == nil {
		return nil, err
	}
	b, err := r.blockOnce(ctx, uint64(got.BlockNumber))
	if err == nil && (b == nil || b.Hash != got.BlockHash) {
		// The chain may have changed since the block was read.
		b, err = r.rereadBlock(ctx, uint64(got.BlockNumber))
	}
	if err != nil || b == nil || b.Hash != got.BlockHash {
		return nil, err
	}
	r.remember(got)
	return &placed{got, b}, nil
}

// view is what the usable endpoints show.
type view struct {
	readers []*reader
	// hosts names all endpoints, also unusable ones.
	hosts string
	// need is how many endpoints must agree.
	need int
	// head, confirm and final are block numbers that enough endpoints have reached, if there are enough.
	head, confirm, final uint64
	// headTime and finalTime are their times, in Unix seconds.
	headTime, finalTime int64
	// problem is the first problem.
	problem error
}

// readView reads the heads of all endpoints, with the blocks confirmed at a level. The error says that none can be read.
func (c *Chain) readView(ctx context.Context, confirm Level) (*view, error) {
	v := &view{hosts: c.hosts()}
	readers, errs := each(c.endpoints, func(n *endpoint) (*reader, error) {
		if err := n.ready(ctx, c.config.Network.ChainID, c.token); err != nil {
			return nil, err
		}
		return n.heads(ctx, confirm)
	})
	for i, e := range c.endpoints {
		if ctx.Err() == nil {
			e.note(errs[i])
		}
	}
	v.need = c.need()
	for i, r := range readers {
		if errs[i] == nil {
			v.readers = append(v.readers, r)
		} else {
			v.addProblem(errs[i])
		}
	}
	v.exclude(stalled(v.readers, c.config.Now()))
	return v, v.usable()
}

// anchored requires that the endpoints show a block by its hash, and excludes those that do not. If enough show
// another one, it fails.
func (v *view) anchored(ctx context.Context, number uint64, hash string) error {
	same, other, behind := 0, make(map[*reader]error), make(map[*reader]error)
	for _, r := range v.readers {
		b, err := r.blockOnce(ctx, number)
		switch {
		case err != nil:
			behind[r] = err
		case b == nil:
			behind[r] = &observe.Error{Code: observe.ErrLagging, Host: r.host}
		case b.Hash == common.HexToHash(hash):
			same++
		default:
			other[r] = &observe.Error{Code: observe.ErrDisagree, Host: r.host}
		}
	}
	if len(other) >= v.need || same == 0 && len(other) > 0 {
		return &observe.Error{Code: observe.ErrHistory, Host: v.hosts}
	}
	v.exclude(other)
	v.exclude(behind)
	return v.usable()
}

// blockAt returns the block of a number on which enough endpoints agree, or nil.
func (v *view) blockAt(ctx context.Context, number uint64) *block {
	return v.same(func(r *reader) (*block, error) {
		if uint64(r.latest.Number) == number {
			return r.latest, nil
		}
		return r.blockOnce(ctx, number)
	})
}

// same returns the block whose hash and time enough endpoints show, or nil.
func (v *view) same(show func(*reader) (*block, error)) *block {
	votes := make(map[block]int)
	for _, r := range v.readers {
		b, err := show(r)
		if err != nil || b == nil {
			continue
		}
		if votes[*b]++; votes[*b] >= v.need {
			return b
		}
	}
	return nil
}

func (v *view) usable() error {
	if len(v.readers) == 0 {
		return v.problem
	}
	return nil
}

func (v *view) addProblem(err error) {
	if v.problem == nil {
		v.problem = err
	}
}

func (v *view) quorum() bool { return len(v.readers) >= v.need }

func (v *view) exclude(out map[*reader]error) {
	for r, err := range out {
		v.addProblem(err)
		v.readers = slices.DeleteFunc(v.readers, func(other *reader) bool { return other == r })
	}
	v.head, v.headTime = v.agreed(func(r *reader) *block { return r.latest })
	v.confirm, _ = v.agreed(func(r *reader) *block { return r.confirm })
	v.final, v.finalTime = v.agreed(func(r *reader) *block { return r.final })
	v.confirm, v.final = min(v.confirm, v.head), min(v.final, v.head)
}

// agreed returns the highest block that enough endpoints have reached, and its time.
func (v *view) agreed(of func(*reader) *block) (number uint64, time int64) {
	if len(v.readers) == 0 {
		return 0, 0
	}
	var blocks []*block
	for _, r := range v.readers {
		blocks = append(blocks, of(r))
	}
	slices.SortFunc(blocks, func(a, b *block) int { return cmp.Compare(b.Number, a.Number) })
	b := blocks[min(v.need, len(blocks))-1]
	return uint64(b.Number), int64(b.Time)
}

// stalled returns the endpoints whose heads have not risen for a while although others are higher.
func stalled(readers []*reader, now time.Time) map[*reader]error {
	var top uint64
	moved := make(map[*reader]time.Time)
	for _, r := range readers {
		moved[r] = r.advance(now)
		top = max(top, uint64(r.latest.Number))
	}
	out := make(map[*reader]error)
	for _, r := range readers {
		if uint64(r.latest.Number) < top && now.Sub(moved[r]) > stalledAfter {
			out[r] = &observe.Error{Code: observe.ErrLagging, Host: r.host}
		}
	}
	return out
}

// advance returns the time at which the head last rose.
func (r *reader) advance(now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number := uint64(r.latest.Number); number > r.best || r.movedAt.IsZero() {
		r.best, r.movedAt = number, now
	}
	return r.movedAt
}
