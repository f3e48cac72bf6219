package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// poolSize is the maximum number of connections that write, and of those that read.
	// 12 instances fit into the 100 connections of a server's default.
	poolSize = 4
	// poolIdle is when an unused connection that reads is closed. One that writes stays,
	// because its lock shows other processes that the ledger is in use.
	poolIdle = 5 * time.Minute

	sessionSpace = "1885435247" // the first key of advisory locks of a session: "payo"
)

// SQLSTATE codes, https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	uniqueViolation      = "23505"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	duplicateTable       = "42P07"
	lockNotAvailable     = "55P03"
	undefinedTable       = "42P01"
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

func (p *postgresDialect) name() string { return "on PostgreSQL" }

func (p *postgresDialect) where() string {
	return fmt.Sprintf("the database %s on %s", p.config.Database, p.config.Host)
}

func (p *postgresDialect) moved() error { return nil }

// open connects; prepareSession checks and locks with every connection.
func (p *postgresDialect) open(ctx context.Context, db *database, exclusive bool) error {
	p.single = exclusive
	db.write = sql.OpenDB(newConnector(p))
	if exclusive {
		db.write.SetMaxOpenConns(1)
		db.read, db.closers = db.write, []io.Closer{db.write}
		return db.write.PingContext(ctx)
	}
	db.write.SetMaxOpenConns(poolSize)
	db.write.SetMaxIdleConns(poolSize)
	db.read, _ = p.peek()
	db.closers = []io.Closer{db.write, db.read}
	return cmp.Or(db.write.PingContext(ctx), db.read.PingContext(ctx))
}

func (p *postgresDialect) peek() (read *sql.DB, err error) {
	read = sql.OpenDB(newConnector(p))
	read.SetMaxOpenConns(poolSize)
	read.SetMaxIdleConns(poolSize)
	read.SetConnMaxIdleTime(poolIdle)
	return read, nil
}

func (p *postgresDialect) oneWriter() bool { return false }

func (p *postgresDialect) forUpdate() string { return " FOR NO KEY UPDATE" } // rows that refer to it can be added

func (p *postgresDialect) skipLocked() string { return " SKIP LOCKED" }

// lock takes the locks in one order. Two names may have one hash, and so share a lock.
func (p *postgresDialect) lock(ctx context.Context, tx *sql.Tx, locks ...lock) error {
	if len(locks) == 0 {
		return nil
	}
	spaces, names := make([]int32, len(locks)), make([]string, len(locks))
	for n, l := range locks {
		spaces[n], names[n] = int32(l.space), l.name
	}
	_, err := execute(ctx, tx, "waiting for other transactions on the same payments", `
		SELECT pg_advisory_xact_lock(space, hash) FROM (SELECT DISTINCT space, hashtext(name) AS hash
			FROM unnest($1::int[], $2::text[]) AS named (space, name) ORDER BY space, hash) AS sorted`, spaces, names)
	return err
}

func (p *postgresDialect) commitAsync(ctx context.Context, tx *sql.Tx) error {
	_, err := execute(ctx, tx, "setting the kind of commit", `SELECT set_config('synchronous_commit', 'off', true)`)
	return err
}

func (p *postgresDialect) lastNumber() string {
	return `SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('receipts', 'id')::regclass), 0)`
}

func (p *postgresDialect) advanceNumbers(receipts int64) string {
	return fmt.Sprintf(`
		SELECT setval(pg_get_serial_sequence('intents', 'id'), max(id)) FROM intents;
		SELECT setval(pg_get_serial_sequence('receipts', 'id'), greatest(max(id), nullif(%d, 0))) FROM receipts;
		SELECT setval(pg_get_serial_sequence('transitions', 'seq'), max(seq)) FROM transitions`, receipts)
}

// transient includes a unique violation, because the next attempt finds the row that
// another instance inserted.
func (p *postgresDialect) transient(err error) bool {
	return slices.Contains([]string{uniqueViolation, serializationFailure, deadlockDetected}, sqlState(err))
}

func (p *postgresDialect) schema() string { return "schema/postgres" }

// version waits for other instances that migrate.
func (p *postgresDialect) version(ctx context.Context, tx *sql.Tx) (version int, err error) {
	if _, err = tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(`+sessionSpace+`, hashtext(current_schema()))`); err != nil {
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

func (p *postgresDialect) setVersion(ctx context.Context, tx *sql.Tx, version int) error {
	_, err := tx.ExecContext(ctx, `UPDATE pay_offer_schema SET version = $1`, version)
	return err
}
