package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	readers = 4        // connections that only read
	room    = 64 << 10 // bytes that an empty ledger needs on the disk; the index of the WAL has 32 KiB
)

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

func (d *sqliteDialect) name() string { return d.path }

func (d *sqliteDialect) where() string { return d.path }

func (d *sqliteDialect) migrations() fs.FS { return schemaOf("sqlite") }

var sqliteParams = []string{
	"_defensive=1",
	"_pragma=busy_timeout(5000)",
	"_pragma=synchronous(FULL)",
	"_pragma=fullfsync(1)", // macOS: fsync alone does not reach the disk
	"_pragma=foreign_keys(1)",
}

func (d *sqliteDialect) connect() (write, read *sql.DB) {
	// One writer: several would starve each other in SQLite's busy handler.
	open := func(params ...string) *sql.DB {
		// mode=rw: a connection must not create the file.
		connector := sqliteConnector(d.real, slices.Concat(sqliteParams, []string{"mode=rw"}, params)...)
		return sql.OpenDB(presentConnector{connector, d})
	}
	write = open("_txlock=immediate", "_pragma=journal_mode(WAL)")
	write.SetMaxOpenConns(1)
	read = open("_query_only=1")
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	return write, read
}

func (d *sqliteDialect) peek() (*sql.DB, error) {
	path, err := filepath.EvalSymlinks(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w (%w)", ErrNone, err)
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
			return d.explainFull(err)
		}
		if got != want.value {
			return d.explainFull(fmt.Errorf("PRAGMA %s is %q instead of %q; a ledger needs a local disk", want.pragma, got, want.value))
		}
	}
	return nil
}

// explainFull adds the remedy to an error of SQLite if the disk is full at start.
func (d *sqliteDialect) explainFull(err error) error {
	file, full := os.CreateTemp(filepath.Dir(d.real), ".room")
	if full == nil {
		_, full = file.Write(make([]byte, room))
		full = errors.Join(full, file.Close())
		_ = os.Remove(file.Name())
	}
	if refused := new(fs.PathError); errors.As(full, &refused) {
		return fmt.Errorf("the disk of %s is full: %w; free some space and start again", filepath.Dir(d.real), refused.Err)
	}
	return err
}

func (d *sqliteDialect) session(ctx context.Context, db *database) (session, error) {
	tx, err := db.write.BeginTx(ctx, nil)
	return sqlSession{tx, db.writes}, err
}

func (d *sqliteDialect) oneWriter() bool { return true }

func (d *sqliteDialect) version(ctx context.Context, tx *sql.Tx) (version int, err error) {
	var tables int
	err = tx.QueryRowContext(ctx, "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version").
		Scan(&version, &tables)
	if err == nil && version == 0 && tables > 0 {
		err = errors.New("the file is a database of another program; name another path, such as 'ledger sqlite /var/lib/caddy/pay_offer.db'")
	}
	return version, err
}

func (d *sqliteDialect) setVersion(ctx context.Context, tx *sql.Tx, version int) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version))
	return err
}

// voidLeases ends all leases, because no other process has the file open.
func (d *sqliteDialect) voidLeases(ctx context.Context, write *sql.DB) error {
	_, err := write.ExecContext(ctx, endLeases)
	return err
}

func (d *sqliteDialect) forUpdate() string            { return "" }
func (d *sqliteDialect) bytewise() string             { return "" }
func (d *sqliteDialect) rows() string                 { return "json_each($1)" }
func (d *sqliteDialect) lock(*transaction, ...string) {}
func (d *sqliteDialect) commitAsync(*transaction)     {}

func (d *sqliteDialect) abortUnless(tx *transaction, condition string, args ...any) {
	tx.waiting = append(tx.waiting, &statement{text: `SELECT ` + condition, args: args, row: func(row scanner) error {
		holds, err := scanValue[bool](row)
		if err == nil && !holds {
			err = errConditionFalse
		}
		return err
	}})
}

var errConditionFalse = errors.New("another process changed the ledger at the same moment; try again")

// unnumbered is NULL, for which SQLite inserts the next number: there is one writer.
func (d *sqliteDialect) unnumbered() string { return "NULL" }

// ordering numbers the transitions that Copy read from a PostgreSQL ledger.
func (d *sqliteDialect) ordering() []string {
	into := func(table, column, where string) string {
		key := totalsKey + column
		return `INSERT INTO ` + table + ` AS sums (` + key + `, ` + sumColumns + `)
			SELECT ` + key + `, ` + summed + ` FROM total_changes WHERE ` + where + ` GROUP BY ` + key + added(key)
	}
	return []string{
		`UPDATE transitions SET seq = newest.number + waiting.n
			FROM (SELECT seq AS before, row_number() OVER (ORDER BY receipt_id, version) AS n FROM transitions WHERE seq < 0) AS waiting,
				(SELECT max(0, max(seq)) AS number FROM transitions) AS newest
			WHERE transitions.seq = waiting.before`,
		into("totals", "", "currency = ''"), into("currency_totals", ", currency", "currency <> ''"), `DELETE FROM total_changes`,
	}
}

func (d *sqliteDialect) exclusive() dialect { return d }

func (d *sqliteDialect) advanceNumbers() string { return "" }

func (d *sqliteDialect) transient(err error) bool {
	return resultCode(err) == sqlite3.SQLITE_BUSY || extendedCode(err) == sqlite3.SQLITE_CONSTRAINT_UNIQUE || errors.Is(err, errConditionFalse)
}

// undone: https://www.sqlite.org/lang_transaction.html, "Response To Errors".
func (d *sqliteDialect) undone(err error) bool {
	return slices.Contains([]int{sqlite3.SQLITE_BUSY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL}, resultCode(err))
}

// resultCode returns the primary result code of an error of SQLite, or 0.
func resultCode(err error) int { return extendedCode(err) & 0xff }

func extendedCode(err error) int {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return 0
	}
	return failure.Code()
}

// conceal adds the remedy to an error of the file.
func (d *sqliteDialect) conceal(err error) error {
	switch resultCode(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", err, ErrDamaged)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w; free space on the disk of %s", err, d.path)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return fmt.Errorf("%w; let the user of the server write to %s and its folder", err, d.path)
	case sqlite3.SQLITE_IOERR:
		return fmt.Errorf("%w; free space on the disk of %s, and check the disk", err, d.path)
	}
	return err
}
