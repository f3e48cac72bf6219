package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// processorTime is what a process has used of all processors, by its own clock, which counts nanoseconds
// (clock_getcpuclockid(3)).
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	const scheduled = 2 // CPUCLOCK_SCHED of the whole process
	var spent unix.Timespec
	require.NoError(t, unix.ClockGettime(int32(^pid<<3|scheduled), &spent))
	return time.Duration(spent.Nano())
}
