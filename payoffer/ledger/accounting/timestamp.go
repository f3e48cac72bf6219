package accounting

import "time"

// lastDay is the last one of which a moment, in whatever time zone, has a year of
// four digits, as RFC 3339 wants it.
const lastDay = 253_402_214_400 // 9999-12-31T00:00:00Z

// Timestamp writes Unix seconds as RFC 3339 does, in UTC. What lies after the year
// 9999, which a version before took from a source, is told as its last day.
func Timestamp(unix int64) string {
	return time.Unix(min(unix, lastDay), 0).UTC().Format(time.RFC3339)
}
