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
	t.Cleanup(Lock(t, filepath.Join(os.TempDir(), fmt.Sprintf("pay-offer-browser-%d.lock", os.Getuid()))))
}

// Lock waits until no other process has the lock of a file, and takes it until the function that it returns is called.
func Lock(t testing.TB, path string) (unlock func()) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	err = syscall.EINTR
	for err == syscall.EINTR {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	require.NoError(t, err)
	return func() { _ = file.Close() }
}
