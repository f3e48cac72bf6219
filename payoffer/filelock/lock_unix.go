//go:build unix

package filelock

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
)

// ofdSetLock is F_OFD_SETLK of fcntl(2), which package syscall does not name. The lock
// belongs to the open file: closing another descriptor of the file does not end it.
var ofdSetLock = map[string]int{"linux": 37, "darwin": 90}

// TryLock locks a file until Close. Error: ErrLocked. On systems without such locks, the lock
// belongs to the process: it does not exclude the process itself.
func TryLock(file *os.File) error {
	err := set(file, syscall.F_WRLCK)
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		return ErrLocked
	case errors.Is(err, syscall.EINVAL): // the kernel does not know the command
		return nil
	}
	return err
}

// Close ends the lock and closes the file. Without the unlock, a process that is being
// started would keep the lock by its copy of the descriptor (fork(2)).
func Close(file *os.File) error {
	_ = set(file, syscall.F_UNLCK)
	return file.Close()
}

func set(file *os.File, kind int16) error {
	command, known := ofdSetLock[runtime.GOOS]
	if !known {
		command = syscall.F_SETLK
	}
	return syscall.FcntlFlock(file.Fd(), command, &syscall.Flock_t{Type: kind, Whence: io.SeekStart, Start: lockByte, Len: 1})
}
