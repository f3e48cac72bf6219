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
	// poolSize is the maximum number of connections that write, and of those that read.
	// 12 instances fit into the 100 connections of a server's default.
	poolSize = 4
	// poolIdle is when an unused connection that reads is closed. One that writes stays,
	// because its lock shows other processes that the ledger is in use.
	poolIdle = 5 * time.Minute

	lockSpace = "1885435247" // the first key of advisory locks: "payo"
	nameSpace = "1885435248" // the first key of locks by name
)

// SQLSTATE codes, https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	uniqueViolation      = "23505"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	duplicateTable       = "42P07"
	divisionByZero       = "22012"
)

// NewPostgres returns an unopened ledger in a PostgreSQL database, which instances share.
// dsn has the form of libpq ("Connection Strings" in the PostgreSQL manual) and appears in
// no error. The tables are in the first schema of its search_path, unless a later one has
// a ledger. A pooler must keep sessions. now gives the time of changes and leases.
func NewPostgres(dsn string, now func() time.Time) (*Ledger, error) {
	config, err := pgx.ParseConfig(dsn)
	if file := new(fs.PathError); errors.As(err, &file) {
		return nil, errors.New("a file that the PostgreSQL DSN names, such as sslrootcert, cannot be read; check its path, and that the user of the server may read it")
	}
	if err != nil {
		return nil, errors.New("the PostgreSQL DSN cannot be read; write it as postgres://user:password@host:5432/database?sslmode=verify-full")
	}
	return newLedger(&postgresDialect{config: config}, now), nil
}

type postgresDialect struct {
	config *pgx.ConnConfig
	single bool // no other process may have the ledger open
}

func (d *postgresDialect) exclusive() dialect {
	return &postgresDialect{config: d.config, single: true}
}

func (d *postgresDialect) name() string { return "on PostgreSQL" }

func (d *postgresDialect) where() string {
	return fmt.Sprintf("the database %s on %s", d.config.Database, d.config.Host)
}

func (d *postgresDialect) moved() error { return nil }

// acquire does nothing: the connections have the locks.
func (d *postgresDialect) acquire(context.Context) (io.Closer, error) { return io.NopCloser(nil), nil }

func (d *postgresDialect) connect() (write, read *sql.DB) {
	write = sql.OpenDB(newConnector(d))
	if d.single {
		write.SetMaxOpenConns(1)
		return write, write
	}
	write.SetMaxOpenConns(poolSize)
	write.SetMaxIdleConns(poolSize)
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

// check connects; prepareSession checks every connection.
func (d *postgresDialect) check(ctx context.Context, write, read *sql.DB) error {
	if err := write.PingContext(ctx); err != nil {
		return err
	}
	return read.PingContext(ctx)
}

// voidLeases does nothing, because other instances may be running.
func (d *postgresDialect) voidLeases(context.Context, *sql.DB) error { return nil }

func (d *postgresDialect) forUpdate() string { return " FOR NO KEY UPDATE" } // rows that refer to it can be added

func (d *postgresDialect) bytewise() string { return ` COLLATE "C"` }

func (d *postgresDialect) rows() string { return "json_array_elements($1)" }

func (d *postgresDialect) unnumbered() string { return "-nextval('transitions_waiting')" }

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

func (d *postgresDialect) undone(error) bool { return true }

// transient includes a unique violation, because the next attempt finds the row that
// another instance inserted, and a division by zero, by which abortUnless fails.
func (d *postgresDialect) transient(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) &&
		slices.Contains([]string{uniqueViolation, serializationFailure, deadlockDetected, divisionByZero}, refused.Code)
}

func (d *postgresDialect) migrations() fs.FS { return schemaOf("postgres") }

// version waits for other instances that migrate.
func (d *postgresDialect) version(ctx context.Context, tx *sql.Tx) (version int, err error) {
	if _, err = tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(`+lockSpace+`, hashtext(current_schema()))`); err != nil {
		return 0, err
	}
	// Not to_regclass, which may answer from a cache older than the lock.
	var exists bool
	err = tx.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'pay_offer_schema')`).
		Scan(&exists)
	if err != nil || !exists {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, `SELECT version FROM pay_offer_schema`).Scan(&version)
	return version, err
}

func (d *postgresDialect) setVersion(ctx context.Context, tx *sql.Tx, version int) error {
	_, err := tx.ExecContext(ctx, `UPDATE pay_offer_schema SET version = $1`, version)
	return err
}
