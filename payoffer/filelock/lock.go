// Package filelock keeps two processes, or two parts of one, from working on the
// same file at once.
package filelock

import "errors"

// lockByte is the byte of a file that is locked: past the largest SQLite database
// (2^48 bytes), and so past the bytes that SQLite locks itself,
// https://www.sqlite.org/fileformat.html#the_lock_byte_page.
const lockByte = 1 << 62

// ErrLocked is what Try says when another open file holds the lock.
var ErrLocked = errors.New("another process holds the lock")
