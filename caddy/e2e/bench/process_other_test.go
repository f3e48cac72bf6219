//go:build !linux

package bench

import (
	"testing"
	"time"
)

const otherSystem = "the benchmark reads the clocks of other processes as Linux tells them"

func processorTime(t testing.TB, _ int) time.Duration {
	t.Helper()
	t.Skip(otherSystem)
	return 0
}

func resident(t testing.TB, _ int) int {
	t.Helper()
	t.Skip(otherSystem)
	return 0
}
