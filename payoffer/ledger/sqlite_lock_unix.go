//go:build unix

package ledger

import (
	"fmt"
	"os"
	"syscall"
)

// links counts the names of a file.
func links(path string) (uint64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("the hard links of %s cannot be counted; put the ledger on a local disk", path)
	}
	return uint64(stat.Nlink), nil
}
