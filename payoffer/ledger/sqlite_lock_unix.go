//go:build unix

package ledger

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// links counts the names of a file.
func links(_ *os.File, info fs.FileInfo) (uint64, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("the hard links of %s cannot be counted; put the ledger on a local disk", info.Name())
	}
	return uint64(stat.Nlink), nil
}
