package evm

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// methodLogs is the only method whose size limits depend on the range.
	methodLogs = "eth_getLogs"
	// suspicious is the number of logs at which a response may have been cut off silently.
	suspicious = 100
	// spanFirst is the first range in blocks, and spanMost the largest. Endpoints limit the blocks, the logs or the
	// time of a query.
	spanFirst = 1000
	spanMost  = 5000
	// spanAgain is after how many responses a refused range is tried again, because the limit may be its logs.
	spanAgain = 100
)

// span adapts the range of one endpoint. After each response it grows by a quarter, up to the refused range. After a
// failure it halves, down to the answered range.
type span struct {
	mu     sync.Mutex
	blocks uint64
	// proven is the largest range answered since the last decrease. refused is the smallest refused range, and
	// answers the number of responses since then. 0 means none.
	proven, refused uint64
	answers         int
}

func (s *span) size() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.blocks, spanFirst)
}

func (s *span) isProven(asked uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return asked <= s.proven
}

func (s *span) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocks, s.proven, s.refused, s.answers = 0, 0, 0, 0
}

// grow records a response. A range smaller than the current one changes nothing.
func (s *span) grow(asked uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proven = max(s.proven, asked)
	size := cmp.Or(s.blocks, spanFirst)
	if asked < size {
		return
	}
	next := min(size+max(size/4, 1), spanMost)
	if s.refused > size {
		next = min(next, size+(s.refused-size)/2)
		if s.answers++; s.answers >= spanAgain {
			s.refused, s.answers = 2*s.refused, 0
		}
	}
	s.blocks = next
}

// shrink records a failure and whether the endpoint refused the range. It reports whether the range can be smaller.
func (s *span) shrink(asked uint64, refused bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refused {
		s.refused, s.answers = asked, 0
	}
	if s.proven >= asked {
		s.proven = 0
	}
	s.blocks = max(asked/2, s.proven, 1)
	return asked > 1
}

// filter selects logs of one contract by topics: a hash, several alternatives, or nil for any.
type filter struct {
	address common.Address
	topics  []any
}

// logs reads a range of blocks in as many queries as the endpoint needs. through is the last block read: less than
// high after an error or after the allowed queries.
func (e *endpoint) logs(ctx context.Context, f filter, low, high uint64, queries int) (all []log, through uint64, err error) {
	for paused := false; low <= high && queries > 0; {
		end := min(high, low+e.span.size()-1)
		asked := end - low + 1
		part, err := e.whole(ctx, f, low, end)
		switch demand := demanded(err); {
		case err == nil:
			e.span.grow(asked)
			all, low, paused = append(all, part...), end+1, false
			queries--
		case demand == fewerCalls:
			return all, low - 1, err
		case demand == fewerOrSmaller && !paused && e.span.isProven(asked):
			// This range was answered before, so these are too many calls.
			e.pace.refuse(e.pace.refused(), 0)
			paused = true
		case !e.span.shrink(asked, refused(err)) || !tooMuch(err):
			return all, low - 1, err
		default:
			paused = false
		}
	}
	return all, low - 1, nil
}

// tooMuch reports whether a query can have failed because of its size: the endpoint answered.
func tooMuch(err error) bool {
	var failed *observe.Error
	return errors.As(err, &failed) && (failed.Status != 0 || failed.Code != observe.ErrUnreachable && failed.Unwrap() != nil)
}

// refused reports whether the endpoint refuses this size; other failures may be temporary.
func refused(err error) bool {
	var failed *observe.Error
	_ = errors.As(err, &failed)
	switch demanded(err) {
	case smallerRange, fewerOrSmaller:
		return true
	default:
		return failed.Status == http.StatusBadRequest || failed.Status == http.StatusRequestEntityTooLarge
	}
}

// whole reads a range. If a response is suspicious, it reads the halves, which must have no fewer logs.
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
	err := e.call(ctx, &logs, methodLogs, map[string]any{
		"fromBlock": hexutil.EncodeUint64(low), "toBlock": hexutil.EncodeUint64(high), "address": f.address, "topics": f.topics,
	})
	for _, l := range logs {
		if number := uint64(l.BlockNumber); number < low || number > high {
			return nil, e.bad()
		}
	}
	return logs, err
}
