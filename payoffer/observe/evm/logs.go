package evm

import (
	"context"
	"errors"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// suspicious is the number of logs from which on an answer may have been cut
// off without a word.
const suspicious = 100

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
