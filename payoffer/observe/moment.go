package observe

import "time"

// earliest is before all payments of today's providers. ahead bounds how far their clocks may
// be ahead of this machine's.
const (
	earliest = 946_684_800 // 2000-01-01T00:00:00Z
	ahead    = 24 * time.Hour
)

// Plausible reports whether a provider's Unix time is between 2000 and a day after now.
// Another one is an error, such as milliseconds, and must not enter the ledger.
func Plausible(at int64, now time.Time) bool {
	return at >= earliest && at <= now.Add(ahead).Unix()
}
