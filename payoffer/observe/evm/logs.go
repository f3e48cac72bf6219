package evm

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// suspicious is the number of logs from which on an answer may have been
	// cut off without a word.
	suspicious = 100
	// spanFirst is how many blocks are asked for at first, and spanMost how
	// many at most: endpoints bound the blocks, the logs or the time of one
	// query, each in its own way.
	spanFirst = 1000
	spanMost  = 5000
)

// span is how many blocks one endpoint is asked for at once: half as many
// after each failure, a quarter more after each success.
type span struct{ blocks atomic.Uint64 }

func (s *span) size() uint64 { return cmp.Or(s.blocks.Load(), spanFirst) }

func (s *span) grow() { s.blocks.Store(min(s.size()+max(s.size()/4, 1), spanMost)) }

// shrink reports whether there is less to ask for than the size that failed.
func (s *span) shrink() bool {
	size := s.size()
	s.blocks.Store(max(size/2, 1))
	return size > 1
}

// filter chooses logs of one contract by their topics; nil means any.
type filter struct {
	address common.Address
	topics  []*common.Hash
}

// logs reads a range of blocks whole, in as many queries as the endpoint
// needs.
func (e *endpoint) logs(ctx context.Context, f filter, low, high uint64) ([]log, error) {
	var all []log
	for low <= high {
		end := min(high, low+e.span.size()-1)
		part, err := e.whole(ctx, f, low, end)
		switch {
		case err == nil:
			e.span.grow()
			all = append(all, part...)
			low = end + 1
		case !e.span.shrink() || !tooMuch(err):
			return nil, err
		}
	}
	return all, nil
}

// tooMuch reports whether a query may have failed for its size: the endpoint
// answered, if only by an error.
func tooMuch(err error) bool {
	var failed *observe.Error
	return errors.As(err, &failed) && (failed.Status != 0 || failed.Code != observe.ErrUnreachable && failed.Unwrap() != nil)
}

// whole reads a range. An answer that may have been cut off is read again in
// halves, which must add up to the whole.
func (e *endpoint) whole(ctx context.Context, f filter, low, high uint64) ([]log, error) {
	logs, err := e.query(ctx, f, low, high)
	if err != nil || len(logs) < suspicious || low == high {
		return logs, err
	}
	middle := low + (high-low)/2
	left, err := e.whole(ctx, f, low, middle)
	if err != nil {
		return nil, err
	}
	right, err := e.whole(ctx, f, middle+1, high)
	if err != nil {
		return nil, err
	}
	if len(left)+len(right) < len(logs) {
		return nil, e.bad()
	}
	return append(left, right...), nil
}

func (e *endpoint) query(ctx context.Context, f filter, low, high uint64) ([]log, error) {
	var logs []log
	err := e.call(ctx, &logs, "eth_getLogs", map[string]any{
		"fromBlock": hexutil.EncodeUint64(low), "toBlock": hexutil.EncodeUint64(high), "address": f.address, "topics": f.topics,
	})
	for _, l := range logs {
		if number := uint64(l.BlockNumber); number < low || number > high {
			return nil, e.bad()
		}
	}
	return logs, err
}
