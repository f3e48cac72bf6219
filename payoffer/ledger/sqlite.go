package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const readers = 4 // connections that only read

// NewSQLite returns an unopened ledger in the SQLite file at path. Open creates the folder
// with mode 0700 and the file with 0600. now gives the time of changes and leases.
func NewSQLite(path string, now func() time.Time) *Ledger {
	return newLedger(&sqliteDialect{path: path}, now)
}

type sqliteDialect struct {
	path string
	// real is path without symbolic links, and locked the locked file. acquire sets both.
	real   string
	locked fs.FileInfo
}

func (s *sqliteDialect) name() string { return s.path }

func (s *sqliteDialect) where() string { return s.path }

func (s *sqliteDialect) schema() string { return "schema/sqlite" }

var sqliteParams = []string{
	"_defensive=1",
	"_pragma=busy_timeout(5000)",
	"_pragma=synchronous(FULL)",
	"_pragma=fullfsync(1)", // macOS: fsync alone does not reach the disk
	"_pragma=foreign_keys(1)",
}

func (s *sqliteDialect) open(ctx context.Context, db *database, _ bool) error {
	if err := s.acquire(db); err != nil {
		return err
	}
	connect := func(params ...string) *sql.DB {
		// mode=rw: a connection must not create the file.
		connector := sqliteConnector(s.real, slices.Concat(sqliteParams, []string{"mode=rw"}, params)...)
		return sql.OpenDB(presentConnector{connector, s})
	}
	// One writer: several would starve each other in SQLite's busy handler.
	db.write, db.read = connect("_txlock=immediate", "_pragma=journal_mode(WAL)"), connect("_query_only=1")
	db.write.SetMaxOpenConns(1)
	db.read.SetMaxOpenConns(readers)
	db.read.SetMaxIdleConns(readers)
	db.closers = append(db.closers, db.write, db.read)
	for _, want := range []struct {
		db            *sql.DB
		pragma, value string
	}{
		{db.write, "journal_mode", "wal"}, // delete, where shared memory is missing: a network disk
		{db.write, "synchronous", "2"},
		{db.write, "foreign_keys", "1"},
		{db.read, "query_only", "1"},
	} {
		var got string
		err := want.db.QueryRowContext(ctx, "PRAGMA "+want.pragma).Scan(&got)
		if err == nil && got != want.value {
			err = fmt.Errorf("PRAGMA %s is %q instead of %q; a ledger needs a local disk", want.pragma, got, want.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *sqliteDialect) peek() (*sql.DB, error) {
	path, err := filepath.EvalSymlinks(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w (%w)", ErrNoLedger, err)
	}
	if err != nil {
		return nil, err
	}
	if err := requireNoOrphan(path); err != nil {
		return nil, err
	}
	return openSQLite(path, slices.Concat(sqliteParams, []string{"mode=ro", "_query_only=1"})...), nil
}

func openSQLite(path string, params ...string) *sql.DB {
	return sql.OpenDB(sqliteConnector(path, params...))
}

// sqliteConnector encodes path as a URI, https://www.sqlite.org/uri.html.
func sqliteConnector(path string, params ...string) driver.Connector {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	connector, err := sqlite.NewConnector("file://" + (&url.URL{Path: path}).EscapedPath() + "?" + strings.Join(params, "&"))
	if err != nil {
		panic(err) // the driver is linked, and reads the text only when it connects
	}
	return connector
}

func (s *sqliteDialect) oneWriter() bool { return true }

func (s *sqliteDialect) version(ctx context.Context, tx *sql.Tx) (version int, err error) {
	var tables int
	err = tx.QueryRowContext(ctx, "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version").
		Scan(&version, &tables)
	if err == nil && version == 0 && tables > 0 {
		err = errors.New("the file is a database of another program; name another path, such as 'ledger sqlite /var/lib/caddy/pay_offer.db'")
	}
	return version, err
}

func (s *sqliteDialect) setVersion(ctx context.Context, tx *sql.Tx, version int) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version))
	return err
}

func (s *sqliteDialect) forUpdate() string  { return "" }
func (s *sqliteDialect) skipLocked() string { return "" }

func (s *sqliteDialect) lock(context.Context, *sql.Tx, ...lock) error { return nil }
func (s *sqliteDialect) commitAsync(context.Context, *sql.Tx) error   { return nil }

func (s *sqliteDialect) lastNumber() string {
	return `SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'receipts'`
}

func (s *sqliteDialect) advanceNumbers(receipts int64) string {
	return fmt.Sprintf(`
		INSERT INTO sqlite_sequence (name, seq) SELECT 'receipts', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'receipts');
		UPDATE sqlite_sequence SET seq = max(seq, %d) WHERE name = 'receipts'`, receipts)
}

func (s *sqliteDialect) transient(err error) bool { return resultCode(err) == sqlite3.SQLITE_BUSY }

// resultCode returns the primary result code of an error of SQLite, or 0.
func resultCode(err error) int {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return 0
	}
	return failure.Code() & 0xff
}

// conceal adds the remedy to an error of the file.
func (s *sqliteDialect) conceal(err error) error {
	switch resultCode(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", err, ErrDamaged)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w; free space on the disk of %s", err, s.path)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return fmt.Errorf("%w; let the user of the server write to %s and its folder", err, s.path)
	case sqlite3.SQLITE_IOERR:
		return fmt.Errorf("%w; free space on the disk of %s, and check the disk", err, s.path)
	}
	return err
}
