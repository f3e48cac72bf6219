package observe

import (
	"cmp"
	"context"
	"time"
)

// correctable is how long after the first start the origin is still corrected by the clock's offset.
const correctable = time.Hour

// Beginning is from when on the money of an account counts whose positions are Unix seconds.
type Beginning struct {
	// Origin is that time: earlier money does not count.
	Origin int64
	// First is the account's first start, corrected by the clock's offset. Older money was backfilled.
	First int64
	// Before is the later origin that this call lowered; 0 if it did not.
	Before int64
}

// Begin returns the origin of an account: the first start, or since (Unix seconds, 0 for none) if that is earlier.
// The stored origin is only ever lowered, and then the account is read again. offset is how far the clock is proven
// to be ahead; nil is never. The error is ErrNoLedger.
func Begin(ctx context.Context, l Ledger, offer, account string, since int64, offset func() time.Duration, now time.Time) (b Beginning, err error) {
	stored, err := Account(ctx, l, offer, account)
	if err != nil {
		return b, err
	}
	b.First = min(stored.Since, now.Unix()) // a clock that was set back had been ahead
	if offset != nil {
		b.First -= int64(offset().Seconds())
	}
	before, err := Position(stored.Origin)
	if err == nil && before < 0 {
		before, err = Origin(ctx, l, offer, account, b.First)
	}
	if err != nil {
		return b, err
	}
	b.Origin = min(before, cmp.Or(since, before))
	if now.Sub(time.Unix(stored.Since, 0)).Abs() < correctable {
		b.Origin = min(b.Origin, b.First)
	}
	if b.Origin < before {
		lowered, err := LowerOrigin(ctx, l, offer, account, b.Origin)
		if err != nil {
			return b, err
		}
		if lowered {
			b.Before = before
		}
	}
	return b, nil
}
