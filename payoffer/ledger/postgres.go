package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// poolSize bounds the connections of one instance that write, and those
	// that read. More would wait for the same rows; 12 instances fit into the
	// 100 connections of a server's default.
	poolSize = 4
	// poolIdle is when an unused connection that reads is closed. One that writes
	// stays: by it others know that the ledger is in use.
	poolIdle = 5 * time.Minute
	// lockSpace is the first key of the advisory locks of this package.
	lockSpace = "1885435247" // "payo"
	// nameSpace is that of the locks by name.
	nameSpace = "1885435248"
)

// SQLSTATE codes, https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	uniqueViolation      = "23505"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	duplicateTable       = "42P07"
	divisionByZero       = "22012"
)

// NewPostgres returns an unopened ledger in a PostgreSQL database that several
// instances share. It does no I/O but to read the files that dsn names. dsn is
// a URL or keywords as in libpq ("Connection Strings" in the PostgreSQL
// manual), TLS included; it appears in no error. The tables have no prefix:
// they live in one schema, which is the first of the DSN's search_path unless
// a later one holds a ledger already. The server must be reached directly or
// through a pooler that keeps sessions.
//
// now gives the time of changes and the comparison of leases, which instances
// whose clocks differ judge differently by that difference.
func NewPostgres(dsn string, now func() time.Time) (*Ledger, error) {
	config, err := pgx.ParseConfig(dsn)
	if file := new(fs.PathError); errors.As(err, &file) {
		return nil, errors.New("a file that the PostgreSQL DSN names, such as sslrootcert, cannot be read")
	}
	if err != nil {
		return nil, errors.New("the PostgreSQL DSN cannot be read; write it as postgres://user:password@host:5432/database?sslmode=verify-full")
	}
	return newLedger(&postgresDialect{config: config}, now), nil
}

type postgresDialect struct {
	config *pgx.ConnConfig
	// single says that no other process may have the ledger open.
	single bool
}

func (d *postgresDialect) alone() dialect {
	return &postgresDialect{config: d.config, single: true}
}

func (d *postgresDialect) name() string { return "on PostgreSQL" }

func (d *postgresDialect) where() string {
	return fmt.Sprintf("the database %s on %s", d.config.Database, d.config.Host)
}

func (d *postgresDialect) moved() error { return nil }

// acquire claims nothing: the connections do.
func (d *postgresDialect) acquire(context.Context) (io.Closer, error) { return io.NopCloser(nil), nil }

func (d *postgresDialect) connect() (write, read *sql.DB) {
	write = sql.OpenDB(newConnector(d))
	if d.single {
		write.SetMaxOpenConns(1)
		return write, write
	}
	write.SetMaxOpenConns(poolSize)
	write.SetMaxIdleConns(poolSize)
	// Readers have their own: they do not queue behind writers.
	read, _ = d.peek()
	return write, read
}

func (d *postgresDialect) peek() (read *sql.DB, err error) {
	read = sql.OpenDB(newConnector(d))
	read.SetMaxOpenConns(poolSize)
	read.SetMaxIdleConns(poolSize)
	read.SetConnMaxIdleTime(poolIdle)
	return read, nil
}

// check connects; the connector looks at every connection.
func (d *postgresDialect) check(ctx context.Context, write, read *sql.DB) error {
	if err := write.PingContext(ctx); err != nil {
		return err
	}
	return read.PingContext(ctx)
}

// prepares: pgx keeps the statements of each connection prepared itself.
func (d *postgresDialect) prepares() bool { return false }

// voidLeases ends none: other instances may be at work.
func (d *postgresDialect) voidLeases(context.Context, *sql.DB) error { return nil }

func (d *postgresDialect) forUpdate() string { return " FOR UPDATE" }

func (d *postgresDialect) bytewise() string { return ` COLLATE "C"` }

func (d *postgresDialect) rows() string { return "json_array_elements($1)" }

func (d *postgresDialect) unnumbered() string { return "-nextval('transitions_waiting')" }

// ordering: each statement sees what was committed before it. Of one receipt a later
// transition is committed after the one before it.
func (d *postgresDialect) ordering() []string {
	return []string{
		`SELECT pg_advisory_xact_lock(` + lockSpace + `, 'transitions'::regclass::oid::int)`,
		`WITH waiting AS MATERIALIZED (SELECT seq FROM transitions WHERE seq < 0 ORDER BY receipt_id, version),
			numbered AS MATERIALIZED (SELECT seq, nextval(pg_get_serial_sequence('transitions', 'seq')) AS number FROM waiting)
		UPDATE transitions SET seq = number FROM numbered WHERE transitions.seq = numbered.seq`,
		`WITH gone AS (DELETE FROM total_changes RETURNING *),
			parts AS (SELECT ` + totalsKey + `, currency, ` + summed + ` FROM gone GROUP BY ` + totalsKey + `, currency),
			own AS (INSERT INTO totals AS sums (` + totalsKey + `, ` + sumColumns + `)
				SELECT ` + totalsKey + `, ` + sumColumns + ` FROM parts WHERE currency = '' ORDER BY ` + totalsKey + added(totalsKey) + `)
		INSERT INTO currency_totals AS sums (` + totalsKey + `, currency, ` + sumColumns + `)
			SELECT ` + totalsKey + `, currency, ` + sumColumns + ` FROM parts WHERE currency <> '' ORDER BY ` + totalsKey + `, currency` +
			added(totalsKey+", currency"),
	}
}

func (d *postgresDialect) advanceNumbers() string {
	return `
		SELECT setval(pg_get_serial_sequence('intents', 'id'), max(id)) FROM intents;
		SELECT setval(pg_get_serial_sequence('receipts', 'id'), max(id)) FROM receipts;
		SELECT setval(pg_get_serial_sequence('transitions', 'seq'), max(seq)) FROM transitions;
		SELECT setval(pg_get_serial_sequence('total_changes', 'id'), max(id)) FROM total_changes`
}

// undone: whatever fails undoes all, for there are no savepoints.
func (d *postgresDialect) undone(error) bool { return true }

// transient counts a unique violation in: another instance inserted the row
// after this one had looked, and the next attempt finds it. So does a division by
// zero, which is what a look at the end fails with.
func (d *postgresDialect) transient(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) &&
		slices.Contains([]string{uniqueViolation, serializationFailure, deadlockDetected, divisionByZero}, refused.Code)
}
