package accounting

import "time"

const lastDay = 253_402_214_400 // 9999-12-31T00:00:00Z

// Timestamp returns Unix seconds as RFC 3339 in UTC, at most lastDay.
func Timestamp(unix int64) string {
	return time.Unix(min(unix, lastDay), 0).UTC().Format(time.RFC3339)
}
