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

// sqliteLock keeps others away from a ledger twice. The lock on the file itself
// holds whatever name it is opened by, and whatever becomes of the files beside
// it. The transaction on the empty database beside it guards the name, for
// another file may take its place; it is the one that earlier versions know, and
// the only one where the system has no locks of open files.
type sqliteLock struct {
	file  *os.File
	db    *sql.DB
	tx    *sql.Tx
	known fs.FileInfo // of file
}

// inUse are the ledgers of this process. A file that one of them has open must
// not be opened here a second time: to close any descriptor of a file ends the
// locks that the process, SQLite for one, holds on it (fcntl(2)).
var inUse struct {
	sync.Mutex
	locks []*sqliteLock
}

// acquire creates the file and claims it and its name, until Close or the end of
// the process, however that comes.
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
	if k.file, k.known, err = openOnce(d.real, os.O_RDWR); err != nil {
		return nil, err
	}
	if err := singleName(d.real, k.file, k.known); err != nil {
		return nil, err
	}
	switch err := filelock.Try(k.file); {
	case errors.Is(err, filelock.ErrLocked):
		return nil, errFileInUse
	case err != nil:
		return nil, fmt.Errorf("locking %s: %w; a ledger needs a local disk", d.real, err)
	}
	if err := k.claimName(ctx, d); err != nil {
		return nil, err
	}
	if err := requireNoOrphan(d.real); err != nil { // nor one of a process that is at work
		return nil, err
	}
	inUse.locks = append(inUse.locks, k)
	d.known = k.known
	return k, nil
}

var errFileInUse = fmt.Errorf("%w; stop it, or give this one a ledger file of its own, or use PostgreSQL for several instances", errInUse)

// locate makes the folder and finds the file's only path: two names of one file
// must meet at one lock.
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

// createFile makes an empty file where there is none, and opens no other.
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

// requireNoOrphan refuses an empty file beside the log of a former one that was
// put away alone: SQLite deletes the log of an empty database. A rollback journal
// is another matter: a ledger writes one only while its file is made, and nothing
// is in it then.
func requireNoOrphan(path string) error {
	if info, err := os.Stat(path); err != nil || info.Size() > 0 {
		return err
	}
	if log, err := os.Stat(path + "-wal"); err != nil || log.Size() == 0 {
		return nil
	}
	return fmt.Errorf("%s-wal is there and the file that it belongs to is not: the newest payments of that file are in it, and would be lost; "+
		"put it away together with the file (as old.db-wal beside old.db), or put the file back", path)
}

// checkAside is singleName for a file that will be read and not locked. One that
// is a ledger of this process was looked at.
func checkAside(path string) error {
	inUse.Lock()
	defer inUse.Unlock()
	file, info, err := openOnce(path, os.O_RDONLY)
	if errors.Is(err, errInUse) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(singleName(path, file, info), file.Close(), requireServersFile(path))
}

// requireServersFile refuses a file that took the place of a server's: the server has
// claimed the name, and the lock that it has is on another file.
func requireServersFile(path string) error {
	if _, err := os.Stat(path + ".lock"); err != nil {
		return nil
	}
	name := openSQLite(path+".lock", "mode=ro")
	_, err := name.Exec("SELECT 1 FROM sqlite_schema")
	if _ = name.Close(); resultCode(err) != sqliteBusy {
		return nil
	}
	// The second lock fails, unless the system has no such locks.
	var locked [2]error
	for i := range locked {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		locked[i] = filelock.Try(file)
		defer filelock.Close(file)
	}
	if locked[0] == nil && errors.Is(locked[1], filelock.ErrLocked) {
		return fmt.Errorf("%s %w: the server has another file open, and saves its payments in a file %s.rescued-… beside it", path, ErrLost, path)
	}
	return nil
}

// openOnce opens a file that this process has not open as a ledger.
func openOnce(path string, flag int) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if slices.ContainsFunc(inUse.locks, func(k *sqliteLock) bool { return os.SameFile(k.known, info) }) {
		return nil, nil, errFileInUse
	}
	file, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err = file.Stat()
	return file, info, err
}

// claimName begins the transaction on the database beside the file.
func (k *sqliteLock) claimName(ctx context.Context, d *sqliteDialect) (err error) {
	path := d.real + ".lock"
	if err = createFile(path); err != nil {
		return err
	}
	k.db = openSQLite(path, "_txlock=exclusive")
	// The transaction outlives ctx, which bounds Open alone.
	k.tx, err = k.db.BeginTx(context.WithoutCancel(ctx), nil)
	switch {
	case err == nil:
		return nil
	case d.transient(err):
		return errFileInUse
	default:
		return d.blame(fmt.Errorf("locking %s: %w; a ledger needs a local disk", path, err))
	}
}

// Close implements io.Closer.
func (k *sqliteLock) Close() error {
	inUse.Lock()
	defer inUse.Unlock()
	inUse.locks = slices.DeleteFunc(inUse.locks, func(other *sqliteLock) bool { return other == k })
	return k.release()
}

// release ends the transaction before its pool: until then its connection, and
// with it the lock, would outlive it. The file's own lock ends last.
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

// singleName refuses a file that others may open by a name in another folder:
// the newest payments stand in a file beside the name by which it was opened.
func singleName(path string, file *os.File, info fs.FileInfo) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil && isMount(string(mounts), path) { // Linux alone has the list, and mounts files
		return fmt.Errorf("%s is mounted alone: the newest payments are kept in files beside it, and those would be lost with the container; "+
			"mount the folder that holds it", path)
	}
	count, err := links(file, info)
	if err != nil {
		return err
	}
	if count > 1 {
		return fmt.Errorf("%s has %d names (hard links): the newest payments are kept in files beside one of them, and would be missed under another; "+
			"remove the others, and where they are needed, link or mount the folder", path, count)
	}
	return nil
}

// isMount reports whether a file, and not a folder above it, is in a list of
// mounts in the form of proc_pid_mountinfo(5).
func isMount(mounts, path string) bool {
	path = strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`).Replace(path)
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == path {
			return true
		}
	}
	return false
}
