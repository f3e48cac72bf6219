package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/filelock"
)

// sqliteLock excludes other processes from a ledger. The file lock protects the file under
// all its names. The transaction on an empty database next to it protects the path if the
// file is replaced, and is the only lock on systems without file locks.
type sqliteLock struct {
	file *os.File
	db   *sql.DB
	tx   *sql.Tx
	info fs.FileInfo // of file
}

// inUse are the ledgers of this process. Their files must not be opened a second time,
// because closing any descriptor of a file ends the process's locks on it, which SQLite
// has (fcntl(2)).
var inUse struct {
	sync.Mutex
	locks []*sqliteLock
}

// acquire creates the file and locks it and its path until Close or the end of the process.
func (d *sqliteDialect) acquire(ctx context.Context) (_ io.Closer, err error) {
	inUse.Lock()
	defer inUse.Unlock()
	if err := d.locate(); err != nil {
		return nil, err
	}
	k := new(sqliteLock)
	defer func() {
		if err != nil {
			_ = k.release()
		}
	}()
	if k.file, k.info, err = openOnce(d.real); err != nil {
		return nil, err
	}
	if err := requireSingleName(d.real, k.file, k.info); err != nil {
		return nil, err
	}
	switch err := filelock.Try(k.file); {
	case errors.Is(err, filelock.ErrLocked):
		return nil, errFileInUse
	case err != nil:
		return nil, fmt.Errorf("locking %s: %w; a ledger needs a local disk", d.real, err)
	}
	if err := k.lockPath(ctx, d); err != nil {
		return nil, err
	}
	if err := requireNoOrphan(d.real); err != nil {
		return nil, err
	}
	inUse.locks = append(inUse.locks, k)
	d.locked = k.info
	return k, nil
}

var errFileInUse = fmt.Errorf("%w; stop it, or give this one a ledger file of its own, or use PostgreSQL for several instances", errInUse)

// locate creates the folder and the file, and resolves symbolic links to it.
func (d *sqliteDialect) locate() error {
	path, err := filepath.Abs(d.path)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = createFile(path)
	}
	if err == nil {
		d.real, err = filepath.EvalSymlinks(path)
	}
	return err
}

// createFile creates an empty file if there is none.
func createFile(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// requireNoOrphan rejects an empty file next to the WAL of a lost one, because SQLite would
// delete that WAL.
func requireNoOrphan(path string) error {
	if info, err := os.Stat(path); err != nil || info.Size() > 0 {
		return err
	}
	if log, err := os.Stat(path + "-wal"); err != nil || log.Size() == 0 {
		return nil
	}
	return fmt.Errorf("%s-wal exists without its ledger file: it contains the newest payments of that file, and they would be lost; "+
		"put the file back, or move both away together (such as old.db and old.db-wal)", path)
}

// openOnce opens a file unless it is a ledger that is open in this process.
func openOnce(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if slices.ContainsFunc(inUse.locks, func(k *sqliteLock) bool { return os.SameFile(k.info, info) }) {
		return nil, nil, errFileInUse
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err = file.Stat()
	return file, info, err
}

// lockPath begins the exclusive transaction on the database next to the file.
func (k *sqliteLock) lockPath(ctx context.Context, d *sqliteDialect) (err error) {
	path := d.real + ".lock"
	if err = createFile(path); err != nil {
		return err
	}
	k.db = openSQLite(path, "_txlock=exclusive")
	// The transaction outlives ctx, which bounds only Open.
	k.tx, err = k.db.BeginTx(context.WithoutCancel(ctx), nil)
	switch {
	case err == nil:
		return nil
	case d.transient(err):
		return errFileInUse
	default:
		return d.explainFull(fmt.Errorf("locking %s: %w; a ledger needs a local disk", path, err))
	}
}

// Close implements io.Closer.
func (k *sqliteLock) Close() error {
	inUse.Lock()
	defer inUse.Unlock()
	inUse.locks = slices.DeleteFunc(inUse.locks, func(other *sqliteLock) bool { return other == k })
	return k.release()
}

// release ends the transaction before its pool, because its connection and the lock would
// outlive the pool. The file lock ends last.
func (k *sqliteLock) release() (err error) {
	if k.tx != nil {
		err = k.tx.Rollback()
	}
	if k.db != nil {
		err = errors.Join(err, k.db.Close())
	}
	if k.file != nil {
		err = errors.Join(err, filelock.Close(k.file))
	}
	return err
}

// requireSingleName rejects a file with several names, because the newest payments are in
// a file (the WAL) next to the name by which it is opened.
func requireSingleName(path string, file *os.File, info fs.FileInfo) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil && isMount(string(mounts), path) { // only Linux has the list and mounts files
		return fmt.Errorf("%s is mounted without its folder: the newest payments are in files next to it, which would be lost with the container; "+
			"mount the folder", path)
	}
	count, err := links(file, info)
	if err != nil {
		return err
	}
	if count > 1 {
		return fmt.Errorf("%s has %d names (hard links): the newest payments are in files next to one of them, and missing under another; "+
			"remove the other links, or mount the folder instead", path, count)
	}
	return nil
}

// isMount reports whether a file itself is in a list of mounts (proc_pid_mountinfo(5)).
func isMount(mounts, path string) bool {
	path = strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`).Replace(path)
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == path {
			return true
		}
	}
	return false
}
