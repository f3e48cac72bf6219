package bench

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
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

// resident is the memory of a process in bytes.
func resident(t testing.TB, pid int) int {
	t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); fields[0] == "VmRSS:" {
			kilobytes, err := strconv.Atoi(fields[1])
			require.NoError(t, err)
			return kilobytes << 10
		}
	}
	t.Fatal("the kernel does not tell the memory of a process")
	return 0
}
