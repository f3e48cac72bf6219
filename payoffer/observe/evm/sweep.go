package evm

import (
	"cmp"
	"context"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// swept is what the endpoints show of a range.
type swept struct {
	logs []log
	// through is the block up to which it was read, by enough endpoints where
	// whole, else by one, because of problem.
	through uint64
	whole   bool
	problem error
}

// sweep collects the logs of a range from all endpoints that have reached it:
// what one hides another shows. Each is asked queriesAtOnce queries at most.
func (v *view) sweep(ctx context.Context, f filter, low, high uint64) (s swept, err error) {
	parts, errs := each(v.readers, func(r *reader) (part swept, err error) {
		if uint64(r.latest.Number) < high {
			return swept{through: low - 1}, &observe.Error{Code: observe.ErrLagging, Host: r.host}
		}
		part.logs, part.through, err = r.logs(ctx, f, low, high, queriesAtOnce)
		return part, err
	})
	slices.SortFunc(parts, func(a, b swept) int { return cmp.Compare(b.through, a.through) })
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
		v.trouble(cmp.Or(errs...))
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

// span is how many blocks the endpoint that takes the fewest is asked for.
func (v *view) span() uint64 {
	smallest := uint64(spanMost)
	for _, r := range v.readers {
		smallest = min(smallest, r.span.size())
	}
	return smallest
}
