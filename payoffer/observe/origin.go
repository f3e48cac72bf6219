package observe

import (
	"cmp"
	"context"
	"time"
)

// correctable is the time after the first start in which Begin corrects the origin by the clock's offset.
const correctable = time.Hour

// Beginning is the start of an account whose positions are Unix seconds.
type Beginning struct {
	// Origin is the time from which its money counts.
	Origin int64
	// First is the account's first start, corrected by the clock's offset. Money before it is backfilled.
	First int64
	// Before is the former origin if this call lowered it, else 0.
	Before int64
}

// Begin returns the origin of an account: the first start, or since (Unix seconds, 0 for none) if that is earlier.
// It only ever lowers a stored origin; then the account is read again. offset is the proven error of the clock, if it
// is ahead; it may be nil. The error is ErrNoLedger.
func Begin(ctx context.Context, l Ledger, offer, account string, since int64, offset func() time.Duration, now time.Time) (b Beginning, err error) {
	stored, err := l.Account(ctx, offer, account)
	if err != nil {
		return b, ErrNoLedger
	}
	b.First = min(stored.Since, now.Unix()) // if the clock was set back, it was ahead before
	if offset != nil {
		b.First = max(0, b.First-int64(max(0, offset()).Seconds())) // never later: a payment in between would not count
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
