//go:build unix

package filelock

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
)

// ofdSetLock is the fcntl(2) command F_OFD_SETLK, which package syscall has no
// name for. Unlike a lock of the process it does not end when the process closes
// another descriptor of the file.
var ofdSetLock = map[string]int{"linux": 37, "darwin": 90}

// Try locks a file until Close. Error: ErrLocked. It does nothing on a system without
// locks of open files.
func Try(file *os.File) error {
	err := set(file, syscall.F_WRLCK)
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		return ErrLocked
	case errors.Is(err, syscall.EINVAL): // a kernel that does not know the command
		return nil
	default:
		return err
	}
}

// Close ends the lock and closes the file. Closed alone, it would stay locked for as
// long as a process that is being started has the descriptor, too (fork(2)).
func Close(file *os.File) error {
	_ = set(file, syscall.F_UNLCK) // else the lock ends a moment later
	return file.Close()
}

func set(file *os.File, kind int16) error {
	command, known := ofdSetLock[runtime.GOOS]
	if !known {
		return nil
	}
	return syscall.FcntlFlock(file.Fd(), command, &syscall.Flock_t{Type: kind, Whence: io.SeekStart, Start: lockByte, Len: 1})
}
