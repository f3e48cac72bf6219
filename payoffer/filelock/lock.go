// Package filelock locks a file for one open file at a time.
package filelock

import "errors"

// lockByte is the locked byte. It is behind the largest SQLite database (2^48 bytes) and
// the bytes that SQLite locks (https://www.sqlite.org/fileformat.html#the_lock_byte_page).
const lockByte = 1 << 62

// ErrLocked means that another open file has the lock.
var ErrLocked = errors.New("another process has locked the file; stop it and try again")
