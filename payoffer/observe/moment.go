package observe

import "time"

// earliest is before anything that a provider of today can tell of, and ahead how
// far its clock may be before ours.
const (
	earliest = 946_684_800 // 2000-01-01T00:00:00Z
	ahead    = 24 * time.Hour
)

// Plausible reports whether a provider can mean the time that it tells, in Unix
// seconds: from 2000 on, and at most a day after now. Anything else is a slip, such
// as milliseconds, and would stand in the books for good.
func Plausible(at int64, now time.Time) bool {
	return at >= earliest && at <= now.Add(ahead).Unix()
}
