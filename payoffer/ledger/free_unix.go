//go:build linux || darwin || freebsd

package ledger

import "golang.org/x/sys/unix"

// free is the room on the disk of a folder for this process, in bytes; -1 where that is
// not known.
func free(folder string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(folder, &s) != nil {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
