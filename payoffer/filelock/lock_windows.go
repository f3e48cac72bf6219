package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// TryLock locks a file until Close. Error: ErrLocked.
func TryLock(file *os.File) error {
	at := &windows.Overlapped{OffsetHigh: lockByte >> 32}
	err := windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

// Close ends the lock and closes the file.
func Close(file *os.File) error { return file.Close() }
