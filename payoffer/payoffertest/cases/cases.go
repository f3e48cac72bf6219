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
	return choose("PAY_OFFER_CASES", "more", few, some, many)
}

// EndToEnd is few; some if PAY_OFFER_NO_SKIP=1, as in .ci/run, which runs the tests of the
// built binary once; and many if FULL=1.
func EndToEnd(few, some, many int) int {
	return choose("PAY_OFFER_NO_SKIP", "1", few, some, many)
}

func choose(variable, value string, few, some, many int) int {
	switch {
	case os.Getenv("FULL") == "1":
		return many
	case os.Getenv(variable) == value:
		return some
	default:
		return few
	}
}
