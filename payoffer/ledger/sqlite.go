package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// sqliteBusy is SQLITE_BUSY, https://www.sqlite.org/rescode.html#busy.
const sqliteBusy = 5

// readers bounds the connections that read beside the single writer.
const readers = 4

// NewSQLite returns an unopened ledger in the SQLite file at path. It does no
// I/O. The folder is created with mode 0700 and the file with 0600 on Open.
// now gives the time of changes and the comparison of leases.
func NewSQLite(path string, now func() time.Time) *Ledger {
	return newLedger(&sqliteDialect{path: path}, now)
}

type sqliteDialect struct {
	path string
	real string // absolute and free of symbolic links, known after acquire
}

func (d *sqliteDialect) name() string { return d.path }

func (d *sqliteDialect) prepares() bool { return true }

func (d *sqliteDialect) migrations() fs.FS { return schemaOf("sqlite") }

// acquire creates the file and holds an exclusive transaction on an empty
// database beside it: the advisory lock that SQLite has on every platform,
// gone with the process however it ends.
func (d *sqliteDialect) acquire(ctx context.Context) (io.Closer, error) {
	if err := d.create(); err != nil {
		return nil, err
	}
	lockPath := d.real + ".lock"
	if err := createFile(lockPath); err != nil {
		return nil, err
	}
	db := openSQLite(lockPath, "_txlock=exclusive")
	// The transaction outlives ctx, which bounds Open alone.
	tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		_ = db.Close()
		if d.transient(err) {
			return nil, fmt.Errorf("%w; stop it, or give this one a ledger file of its own, or use PostgreSQL for several instances", errInUse)
		}
		return nil, fmt.Errorf("locking %s: %w; a ledger needs a local disk", lockPath, err)
	}
	return &sqliteLock{db: db, tx: tx}, nil
}

// sqliteLock is the transaction that acquire holds.
type sqliteLock struct {
	db *sql.DB
	tx *sql.Tx
}

// Close ends the transaction first: until then its connection, and with it
// the lock, would outlive the pool.
func (k *sqliteLock) Close() error {
	return errors.Join(k.tx.Rollback(), k.db.Close())
}

func (d *sqliteDialect) create() error {
	path, err := filepath.Abs(d.path)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = createFile(path)
	}
	if err != nil {
		return err
	}
	// Two names of one file must meet at one lock.
	d.real, err = filepath.EvalSymlinks(path)
	return err
}

func createFile(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

func (d *sqliteDialect) connect() (write, read *sql.DB) {
	common := []string{
		"_defensive=1",
		"_pragma=busy_timeout(5000)",
		"_pragma=synchronous(FULL)",
		"_pragma=fullfsync(1)", // macOS: fsync alone does not reach the disk
		"_pragma=foreign_keys(1)",
	}
	// One writer: several would starve each other in SQLite's busy handler.
	write = openSQLite(d.real, append(common, "_txlock=immediate", "_pragma=journal_mode(WAL)")...)
	write.SetMaxOpenConns(1)
	read = openSQLite(d.real, append(common, "_query_only=1")...)
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	return write, read
}

// openSQLite makes a pool and does no I/O. It writes path as a URI,
// https://www.sqlite.org/uri.html, so that no character of it is taken for a
// parameter.
func openSQLite(path string, params ...string) *sql.DB {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	db, err := sql.Open("sqlite", "file://"+(&url.URL{Path: path}).EscapedPath()+"?"+strings.Join(params, "&"))
	if err != nil {
		panic(err) // the driver is linked, and reads the text only when it connects
	}
	return db
}

func (d *sqliteDialect) check(ctx context.Context, write, read *sql.DB) error {
	for _, want := range []struct {
		db            *sql.DB
		pragma, value string
	}{
		{write, "journal_mode", "wal"}, // delete, where shared memory is missing: a network disk
		{write, "synchronous", "2"},
		{write, "foreign_keys", "1"},
		{read, "query_only", "1"},
	} {
		var got string
		if err := want.db.QueryRowContext(ctx, "PRAGMA "+want.pragma).Scan(&got); err != nil {
			return err
		}
		if got != want.value {
			return fmt.Errorf("PRAGMA %s is %q instead of %q; a ledger needs a local disk", want.pragma, got, want.value)
		}
	}
	return nil
}

func (d *sqliteDialect) version(ctx context.Context, tx *sql.Tx) (version int, err error) {
	var tables int
	err = tx.QueryRowContext(ctx, "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version").
		Scan(&version, &tables)
	if err == nil && version == 0 && tables > 0 {
		err = errors.New("the file is a database of another program; name another path")
	}
	return version, err
}

func (d *sqliteDialect) setVersion(ctx context.Context, tx *sql.Tx, version int) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version))
	return err
}

// voidLeases ends all leases: whoever holds the lock is the only process, and
// the attempts of the one before ended with it.
func (d *sqliteDialect) voidLeases(ctx context.Context, write *sql.DB) error {
	_, err := write.ExecContext(ctx, `
		UPDATE intents SET lease_until = 0 WHERE state = 'settling';
		UPDATE sinks SET lease_until = 0`)
	return err
}

// One writer at a time is an order, and locks every row.

func (d *sqliteDialect) forUpdate() string                           { return "" }
func (d *sqliteDialect) orderHistory(context.Context, *sql.Tx) error { return nil }

func (d *sqliteDialect) transient(err error) bool {
	var failure *sqlite.Error
	return errors.As(err, &failure) && failure.Code()&0xff == sqliteBusy
}

func (d *sqliteDialect) conceal(err error) error { return err }
