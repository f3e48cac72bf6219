// Package cases says how many random cases a test tries, so that a machine of
// any size finishes and the large counts still run.
package cases

import (
	"os"
	"testing"
)

// Count is 2,000; 100,000 if PAY_OFFER_CASES=more; and 1,000,000 if FULL=1, for which
// go test needs -timeout 3h. Under the race detector, which is tens of times as slow, it
// is 500. The number is in the test's log.
func Count(t testing.TB) int {
	t.Helper()
	count := 2_000
	switch {
	case raceDetector:
		count = 500
	case os.Getenv("FULL") == "1":
		count = 1_000_000
	case os.Getenv("PAY_OFFER_CASES") == "more":
		count = 100_000
	}
	t.Logf("%d random cases", count)
	return count
}

// Of is few; some if PAY_OFFER_CASES=more; and many if FULL=1: for cases each of which
// takes long. Under the race detector it is a third of few.
func Of(few, some, many int) int {
	if raceDetector {
		return max(1, few/3)
	}
	return EndToEnd(few, some, many)
}

// EndToEnd is Of for tests of the built binary, which the race detector does not slow down.
func EndToEnd(few, some, many int) int {
	switch {
	case os.Getenv("FULL") == "1":
		return many
	case os.Getenv("PAY_OFFER_CASES") == "more":
		return some
	default:
		return few
	}
}
