//go:build !linux

package bench

import (
	"testing"
	"time"
)

func processorTime(t testing.TB, _ int) time.Duration {
	t.Helper()
	t.Skip("the benchmark reads the clocks of other processes as Linux tells them")
	return 0
}
