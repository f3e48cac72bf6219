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

// Try locks a file for as long as it is open. Error: ErrLocked. It does nothing on
// a system without locks of open files.
func Try(file *os.File) error {
	command, known := ofdSetLock[runtime.GOOS]
	if !known {
		return nil
	}
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: lockByte, Len: 1}
	err := syscall.FcntlFlock(file.Fd(), command, &lock)
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		return ErrLocked
	case errors.Is(err, syscall.EINVAL): // a kernel that does not know the command
		return nil
	default:
		return err
	}
}
