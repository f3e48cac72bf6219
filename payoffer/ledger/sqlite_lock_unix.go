//go:build unix

package ledger

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

// ofdSetLock is the fcntl(2) command F_OFD_SETLK, which package syscall has no
// name for. Unlike a lock of the process it does not end when the process closes
// another descriptor of the file.
var ofdSetLock = map[string]int{"linux": 37, "darwin": 90}

// lockFile locks lockByte for as long as file is open. Error: errLocked. It does
// nothing on a system without locks of open files.
func lockFile(file *os.File) error {
	command, known := ofdSetLock[runtime.GOOS]
	if !known {
		return nil
	}
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: lockByte, Len: 1}
	err := syscall.FcntlFlock(file.Fd(), command, &lock)
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		return errLocked
	case errors.Is(err, syscall.EINVAL): // a kernel that does not know the command
		return nil
	default:
		return err
	}
}

// links counts the names of a file.
func links(_ *os.File, info fs.FileInfo) (uint64, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("the names of %s cannot be counted", info.Name())
	}
	return uint64(stat.Nlink), nil
}
