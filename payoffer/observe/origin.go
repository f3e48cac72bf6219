package observe

import (
	"cmp"
	"context"
	"strconv"
	"time"
)

// settled is for how long before and after the first start the clock may still
// turn out to have been wrong then: others are heard of the time one by one, and
// it may be set.
const settled = time.Hour

// Beginning is from when on the money of an account counts whose positions are
// Unix seconds.
type Beginning struct {
	// Origin is that time: earlier money does not count.
	Origin int64
	// First is the account's first start by the time of day. What is older and
	// counts was backfilled.
	First int64
	// Before is the origin that was lowered just now; 0 if it was not.
	Before int64
	// Back says that what lies between is still to be read.
	Back bool
}

// Begin finds from when on money counts: from the first start on by the time of
// day, or from since (Unix seconds, 0 for nothing) if that is earlier. What was
// stored is only ever lowered. offset is by how much the clock is proven to be
// ahead, nil for never, and started when this observer began, for accounts that a
// version before kept no start of. The error is ErrNoLedger.
func Begin(ctx context.Context, l Ledger, offer, account string, since int64, offset func() time.Duration, started, now time.Time) (b Beginning, err error) {
	stored, err := Account(ctx, l, offer, account)
	if err != nil {
		return b, err
	}
	b.First = started.Unix()
	if stored.Since > 0 {
		b.First = min(stored.Since, now.Unix()) // a clock that was set back had been ahead
	}
	if offset != nil {
		b.First -= int64(offset().Seconds())
	}
	if stored.Origin == "" {
		b.Origin, err = Origin(ctx, l, offer, account, b.First)
	} else if b.Origin, err = strconv.ParseInt(stored.Origin, 10, 64); err != nil {
		err = ErrNoLedger
	}
	if err != nil {
		return b, err
	}
	to := min(b.Origin, cmp.Or(since, b.Origin))
	if away := now.Sub(time.Unix(stored.Since, 0)).Abs(); stored.Since > 0 && away < settled {
		to = min(to, b.First)
	}
	b.Back = stored.Back != ""
	if to < b.Origin {
		lowered, err := LowerOrigin(ctx, l, offer, account, to)
		if err != nil {
			return b, err
		}
		if lowered {
			b.Before, b.Back = b.Origin, true
		}
	}
	if stored.Since == 0 {
		b.First = b.Origin
		if first, err := strconv.ParseInt(stored.Back, 10, 64); err == nil {
			b.First = first
		}
	}
	b.Origin = to
	return b, nil
}
