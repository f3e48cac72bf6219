package evm

import (
	"cmp"
	"context"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// collected is what the endpoints show of a range.
type collected struct {
	logs []log
	// through is the last block read: by enough endpoints if whole, else by only one, because of problem.
	through uint64
	whole   bool
	problem error
}

// collectLogs collects the logs of a range from all endpoints that have reached it, with at most queriesAtOnce
// queries each.
func (v *view) collectLogs(ctx context.Context, f filter, low, high uint64) (s collected, err error) {
	parts, errs := each(v.readers, func(r *reader) (part collected, err error) {
		if uint64(r.latest.Number) < high {
			return collected{through: low - 1}, &observe.Error{Code: observe.ErrLagging, Host: r.host}
		}
		part.logs, part.through, err = r.logs(ctx, f, low, high, queriesAtOnce)
		return part, err
	})
	slices.SortFunc(parts, func(a, b collected) int { return cmp.Compare(b.through, a.through) })
	s.through = parts[0].through
	if need := v.need; len(parts) >= need && parts[need-1].through >= low {
		s.through, s.whole = parts[need-1].through, true
	}
	if s.through < low {
		return s, cmp.Or(errs...)
	}
	if !s.whole {
		s.problem = cmp.Or(cmp.Or(errs...), v.problem)
	} else if s.through < high {
		v.addProblem(cmp.Or(errs...))
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

// span is the smallest range of the endpoints, in blocks.
func (v *view) span() uint64 {
	smallest := uint64(spanMost)
	for _, r := range v.readers {
		smallest = min(smallest, r.span.size())
	}
	return smallest
}
