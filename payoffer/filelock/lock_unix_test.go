//go:build linux || darwin

package filelock

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that is being started has the descriptors of this one until it begins its
// program.
func TestCloseUnlocksInheritedDescriptor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locked")
	open := func() *os.File {
		t.Helper()
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		require.NoError(t, err)
		return file
	}
	first, second := open(), open()
	require.NoError(t, TryLock(first))
	require.ErrorIs(t, TryLock(second), ErrLocked)
	inherited, err := syscall.Dup(int(first.Fd()))
	require.NoError(t, err)
	require.NoError(t, Close(first))
	require.NoError(t, TryLock(second))
	require.NoError(t, Close(second))
	require.NoError(t, syscall.Close(inherited))
}
