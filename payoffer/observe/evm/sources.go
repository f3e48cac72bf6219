package evm

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// quietFor is how old the block of a contradiction must be, in seconds, before it is reported, because the servers
	// of one endpoint differ for seconds.
	quietFor = 30
)

// lagMost is how far, in seconds, a head of one endpoint may be behind that of another one. Safe and final blocks advance
// in steps of minutes, and not everywhere at once.
var lagMost = map[Level]uint64{Latest: 60, Safe: 30 * 60, Finalized: 30 * 60}

// sources are the endpoints of one cycle or decision.
type sources struct {
	*Chain
	// to are the accounts of a cycle, nil for a decision, and anchors the numbers of their final blocks, by hash.
	to      map[common.Address]bool
	anchors map[string]uint64
	// readings are those of the reader and, if there is one, of the witness.
	readings []*reading
	// waiting means that a live witness cannot be read. Then nothing is decided.
	waiting bool
	// contested has the hosts that contradict each other, by transaction.
	contested map[common.Hash]string
	problem   error // the first one
}

func (s *sources) addProblem(err error) { s.problem = cmp.Or(s.problem, err) }

// choose chooses the reader and its witness, a live endpoint on another host: the first ones in the operator's order
// that answer, show the accounts' final blocks, and agree on the heads. The error says that there is no reader.
func (s *sources) choose(ctx context.Context) error {
	foreign, agreed := false, false
	inOrder := slices.SortedStableFunc(slices.Values(s.endpoints), func(a, b *endpoint) int { return cmp.Compare(a.rank(), b.rank()) })
	for _, e := range inOrder {
		if agreed || len(s.readings) > 0 && (s.reads(e.host) || e.rank() == rankDead) {
			_, failure, _ := e.state()
			s.addProblem(failure)
			s.probe(ctx, e)
			continue
		}
		r, err := s.open(ctx, e)
		switch {
		case source.Code(err) == observe.ErrHistory:
			foreign = true
			s.addProblem(&observe.Error{Code: observe.ErrDisagree, Host: e.host})
		case err != nil:
			s.addProblem(err)
		default:
			s.readings = append(s.readings, r)
			agreed = s.keepPair(Latest, Safe, Finalized)
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case len(s.readings) == 0 && foreign:
		return &observe.Error{Code: observe.ErrHistory, Host: s.hosts}
	case len(s.readings) == 0:
		return s.problem
	}
	if !s.keepPair(Latest) {
		s.retain(slices.MaxFunc(s.readings, func(a, b *reading) int {
			x, y := int64(a.heads[Latest].Time), int64(b.heads[Latest].Time)
			if s.isFuture(x) != s.isFuture(y) {
				return cmp.Compare(y, x)
			}
			return cmp.Compare(x, y)
		}))
	}
	s.updateWaiting()
	return nil
}

// isFuture reports whether a head is more than a minute ahead of this machine's clock. Of heads that are far from each other the
// latest one is the best, but not one from the future: its endpoint is wrong. If all are, the clock is.
func (c *Chain) isFuture(head int64) bool { return head-c.config.Now().Unix() > int64(lagMost[Latest]) }

func (s *sources) reads(host string) bool {
	return slices.ContainsFunc(s.readings, func(r *reading) bool { return r.host == host })
}

// keepPair keeps the first two readings whose heads at some levels are near each other, if there are two. Their agreement
// shows which heads are wrong; this machine's clock can be wrong too.
func (s *sources) keepPair(levels ...Level) bool {
	for i, b := range s.readings {
		for _, a := range s.readings[:i] {
			if !a.lags(b, levels...) && !b.lags(a, levels...) {
				s.retain(a, b)
				return true
			}
		}
	}
	return false
}

// retain drops the other readings, and reports the heads that are far behind or ahead of those of a retained one.
func (s *sources) retain(retained ...*reading) {
	for _, r := range s.readings {
		if slices.ContainsFunc(retained, func(k *reading) bool { return r.lags(k, Latest, Safe, Finalized) }) {
			s.addProblem(&observe.Error{Code: observe.ErrLagging, Host: r.host})
		} else if !slices.Contains(retained, r) {
			s.addProblem(&observe.Error{Code: observe.ErrDisagree, Host: r.host})
		}
	}
	s.readings = retained
}

// lags reports whether the head at one of the levels is far behind that of another reading.
func (r *reading) lags(other *reading, levels ...Level) bool {
	return slices.ContainsFunc(levels, func(level Level) bool {
		return uint64(r.heads[level].Time)+lagMost[level] < uint64(other.heads[level].Time)
	})
}

// updateWaiting updates waiting.
func (s *sources) updateWaiting() {
	s.waiting = len(s.readings) < 2 && slices.ContainsFunc(s.endpoints, func(e *endpoint) bool {
		return !s.reads(e.host) && e.rank() != rankDead
	})
}

// probe reads an endpoint that failed, in the background, so that it delays nothing. If it answers, it is used again.
// Only cycles do so: they end before Chain.Run does.
func (s *sources) probe(ctx context.Context, e *endpoint) {
	if s.to == nil || e.rank() == rankWell || !e.probed.TryLock() {
		return
	}
	s.probing.Go(func() {
		defer e.probed.Unlock()
		r, err := s.open(ctx, e)
		if err == nil {
			low, high := uint64(r.heads[Finalized].Number)+1, uint64(r.heads[Latest].Number)
			_, err = s.scan(ctx, r, low, high, &account{Observer: new(Observer)}) // of no address
			e.recordOutcome(ctx, err)
		}
	})
}

// lowest returns the lowest of the readings' blocks.
func (s *sources) lowest(level Level) *block {
	return slices.MinFunc(s.readings, func(a, b *reading) int { return cmp.Compare(a.heads[level].Number, b.heads[level].Number) }).heads[level]
}

// sameBlock returns the block of a number if all readings show the same one.
func (s *sources) sameBlock(ctx context.Context, number uint64) (*block, error) {
	blocks, errs := each(s.readings, func(r *reading) (*block, error) { return r.blockOnce(ctx, number) })
	for i, b := range blocks {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if b == nil || *b != *blocks[0] {
			return nil, &observe.Error{Code: observe.ErrDisagree, Host: s.hosts}
		}
	}
	return blocks[0], nil
}

// joined is what the reader shows of a range, after the witness was asked about the same.
type joined struct {
	// transfers are those of each transaction that was read.
	transfers map[common.Hash][]transfer
	// held are the transactions about which nothing can be decided.
	held map[common.Hash]bool
	// through is the last block that was read, and sure the last one up to which nothing is missing.
	through, sure uint64
}

// read reads the logs of accounts in a range of blocks, and the transactions of these logs and the known ones. What the
// readings show differently is held, unless a third endpoint agrees with one.
func (s *sources) read(ctx context.Context, accounts []*account, low, high uint64, known map[common.Hash]bool) (joined, error) {
	readings := s.readings
	scans, errs := each(readings, func(r *reading) (*shown, error) {
		return s.scan(ctx, r, low, min(high, uint64(r.heads[Latest].Number)), accounts...)
	})
	s.addProblem(cmp.Or(errs...))
	s.readings = nil
	var found []*shown
	for i, r := range readings {
		if r.recordOutcome(ctx, errs[i]); errs[i] == nil {
			s.readings, found = append(s.readings, r), append(found, scans[i])
		}
	}
	if len(s.readings) == 0 {
		return joined{}, s.problem
	}
	s.updateWaiting()
	all := maps.Clone(known)
	for _, f := range found {
		for t := range f.logs {
			all[t] = true
		}
	}
	var work sync.WaitGroup
	for _, f := range found {
		work.Go(func() { s.lookUp(ctx, f, all) })
	}
	work.Wait()
	a, b := found[0], found[len(found)-1]
	j := joined{
		transfers: make(map[common.Hash][]transfer), held: make(map[common.Hash]bool),
		through: min(a.through, b.through), sure: min(a.sure, b.sure),
	}
	for t := range all {
		x, y := a.transfers[t], b.transfers[t]
		unreached := len(x) == 0 && a.isAbove(y) || len(y) == 0 && b.isAbove(x)
		err := cmp.Or(a.failed[t], b.failed[t])
		s.addProblem(err)
		if j.held[t] = err != nil || s.waiting; err == nil && !sameTransfers(x, y) && !unreached {
			a.forget(t)
			b.forget(t)
			agreed, decided := s.askThird(ctx, t, x, y)
			if j.held[t] = !decided; decided {
				x, y = agreed, agreed
			} else if shows := slices.Concat(x, y)[0]; a.heads[Latest].Time >= shows.block.Time+quietFor {
				s.contested[t] = a.host + ", " + b.host
			}
		}
		if j.transfers[t] = x; len(x) == 0 {
			j.transfers[t] = y
		}
	}
	return j, ctx.Err()
}

// askThird asks the other endpoints about a transaction that the reader and the witness show differently.
func (s *sources) askThird(ctx context.Context, t common.Hash, x, y []transfer) (agreed []transfer, decided bool) {
	for _, e := range s.endpoints {
		if s.reads(e.host) || e.rank() != rankWell {
			continue
		}
		r, err := s.open(ctx, e)
		if err != nil {
			continue
		}
		z, _ := s.scan(ctx, r, 0, uint64(r.heads[Latest].Number)) // of no account
		s.lookUp(ctx, z, map[common.Hash]bool{t: true})
		if shows := z.transfers[t]; z.failed[t] == nil && !z.isAbove(x) && !z.isAbove(y) && (sameTransfers(shows, x) || sameTransfers(shows, y)) {
			return shows, true
		}
	}
	return nil, false
}
