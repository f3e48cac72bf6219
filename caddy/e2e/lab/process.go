package lab

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

// Resident is the memory of a process in bytes, as Linux tells it.
func Resident(t testing.TB, pid int) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		skip.Test(t, "the memory of other processes is read as Linux tells it")
	}
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
