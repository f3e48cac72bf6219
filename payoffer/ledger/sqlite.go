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
)

// Primary result codes, https://www.sqlite.org/rescode.html.
const (
	sqliteBusy      = 5
	sqliteNoMemory  = 7
	sqliteInterrupt = 9
	sqliteIO        = 10
	sqliteFull      = 13
	// sqliteUnique is an extended one.
	sqliteUnique = 2067
)

// readers bounds the connections that read beside the single writer.
const readers = 4

// room is the least that must fit on the disk beside an empty ledger: SQLite's
// index of its log is 32 KiB.
const room = 64 << 10

// NewSQLite returns an unopened ledger in the SQLite file at path. It does no
// I/O. The folder is created with mode 0700 and the file with 0600 on Open.
// now gives the time of changes and the comparison of leases.
func NewSQLite(path string, now func() time.Time) *Ledger {
	return newLedger(&sqliteDialect{path: path}, now)
}

type sqliteDialect struct {
	path string
	// real is absolute and free of symbolic links, and known is the file that is
	// locked. acquire sets both.
	real  string
	known fs.FileInfo
}

func (d *sqliteDialect) name() string { return d.path }

func (d *sqliteDialect) where() string { return d.path }

func (d *sqliteDialect) prepares() bool { return true }

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
		// mode=rw: the file is there, and a connection that finds none must not make one.
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

// peek takes no lock: SQLite keeps a reader and the writer apart itself.
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

// openSQLite makes a pool and does no I/O.
func openSQLite(path string, params ...string) *sql.DB {
	return sql.OpenDB(sqliteConnector(path, params...))
}

// sqliteConnector writes path as a URI, https://www.sqlite.org/uri.html, so that no
// character of it is taken for a parameter.
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
			return d.blame(err)
		}
		if got != want.value {
			return d.blame(fmt.Errorf("PRAGMA %s is %q instead of %q; a ledger needs a local disk", want.pragma, got, want.value))
		}
	}
	return nil
}

// blame says that the disk is full where that is why SQLite failed at start,
// for which it has other words when its log or its index has no room.
func (d *sqliteDialect) blame(err error) error {
	file, full := os.CreateTemp(filepath.Dir(d.real), ".room")
	if full == nil {
		_, full = file.Write(make([]byte, room))
		full = errors.Join(full, file.Close())
		_ = os.Remove(file.Name())
	}
	if refused := new(fs.PathError); errors.As(full, &refused) {
		return fmt.Errorf("nothing more can be written into %s: %w; make room there and start again", filepath.Dir(d.real), refused.Err)
	}
	return err
}

func (d *sqliteDialect) session(ctx context.Context, db *database) (session, error) {
	tx, err := db.write.BeginTx(ctx, nil)
	return sqlSession{tx, db.writes}, err
}

func (d *sqliteDialect) oneWriter() bool { return true }

// version takes no lock: one process at a time has the file open.
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
	_, err := write.ExecContext(ctx, endLeases)
	return err
}

// One writer at a time is an order, and locks every row.

func (d *sqliteDialect) forUpdate() string            { return "" }
func (d *sqliteDialect) bytewise() string             { return "" }
func (d *sqliteDialect) rows() string                 { return "json_each($1)" }
func (d *sqliteDialect) lock(*transaction, ...string) {}
func (d *sqliteDialect) hurry(*transaction)           {}

func (d *sqliteDialect) require(tx *transaction, condition string, args ...any) {
	tx.waiting = append(tx.waiting, &statement{text: `SELECT ` + condition, args: args, row: func(row scanner) error {
		holds, err := scanValue[bool](row)
		if err == nil && !holds {
			err = errNotSo
		}
		return err
	}})
}

// errNotSo is the error of a condition that does not hold.
var errNotSo = errors.New("something is in the way of a change")

// unnumbered: the next one, for one writer at a time is an order.
func (d *sqliteDialect) unnumbered() string { return "NULL" }

// ordering: nothing waits to be ordered but what a copy of another kind of database has
// brought. Nobody adds any between the statements.
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

// alone: every process is.
func (d *sqliteDialect) alone() dialect { return d }

func (d *sqliteDialect) advanceNumbers() string { return "" }

// transient: as on PostgreSQL, the next attempt says what is in the way.
func (d *sqliteDialect) transient(err error) bool {
	return resultCode(err) == sqliteBusy || extendedCode(err) == sqliteUnique || errors.Is(err, errNotSo)
}

// undone: https://www.sqlite.org/lang_transaction.html, "Response To Errors Within A
// Transaction".
func (d *sqliteDialect) undone(err error) bool {
	return slices.Contains([]int{sqliteBusy, sqliteNoMemory, sqliteInterrupt, sqliteIO, sqliteFull}, resultCode(err))
}

// resultCode is the primary result code of an error of SQLite; 0 of any other.
func resultCode(err error) int { return extendedCode(err) & 0xff }

func extendedCode(err error) int {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return 0
	}
	return failure.Code()
}

func (d *sqliteDialect) conceal(err error) error { return err }
