//go:build unix

package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// AwaitBrowser waits until no other test on this machine has a browser, and keeps others waiting until the test ends. Two take
// twice the memory, and each longer than both after one another.
func AwaitBrowser(t testing.TB) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("pay-offer-browser-%d.lock", os.Getuid())), os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	err = syscall.EINTR
	for err == syscall.EINTR {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	require.NoError(t, err)
}
