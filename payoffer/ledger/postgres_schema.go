package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// locking is how a migration waits for locks.
type locking struct {
	// timeout bounds how long one lock is waited for: everybody else who wants
	// something of the table queues behind the one who waits.
	timeout time.Duration
	// pause is how long the others have between two tries.
	pause time.Duration
	// told is how often the operator is told who holds the lock.
	told time.Duration
}

var usualLocking = locking{timeout: time.Second, pause: 5 * time.Second, told: time.Minute}

func (d *postgresDialect) migrations() fs.FS { return schemaOf("postgres") }

func (d *postgresDialect) version(ctx context.Context, tx *sql.Tx) (version, oldest int, err error) {
	// Not to_regclass, which may answer from a cache older than a lock.
	var exists bool
	err = tx.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'pay_offer_schema')`).
		Scan(&exists)
	if err != nil || !exists {
		return 0, 0, err
	}
	// Before version 6 there is no column oldest.
	err = tx.QueryRowContext(ctx, `
		SELECT version, coalesce((to_jsonb(s) ->> 'oldest')::int, 0) FROM pay_offer_schema AS s`).Scan(&version, &oldest)
	return version, oldest, err
}

func (d *postgresDialect) setVersion(ctx context.Context, tx *sql.Tx, version int) error {
	_, err := tx.ExecContext(ctx, `UPDATE pay_offer_schema SET version = $1`, version)
	return err
}

func (d *postgresDialect) retire(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `UPDATE pay_offer_schema SET version = $1, oldest = $1`, movedVersion)
	return err
}

// knownSchema is the context's key for the schema that a program knows.
type knownSchema struct{}

func (d *postgresDialect) begin(ctx context.Context, write *sql.DB, known int) (*sql.Tx, error) {
	return write.BeginTx(context.WithValue(ctx, knownSchema{}, known), nil)
}

// guarded is a connection whose transactions look at the schema as they begin.
type guarded struct{ *stdlib.Conn }

// BeginTx implements driver.ConnBeginTx. What is looked at comes with the BEGIN
// and costs no way to the server and back. The table stays locked (ACCESS SHARE)
// until the transaction ends: a migration that raises oldest locks it before,
// waits for those who write, and is seen by those who wait for it.
func (c guarded) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	known, checked := ctx.Value(knownSchema{}).(int)
	conn := c.Conn.Conn()
	switch {
	case !checked:
		return c.Conn.BeginTx(ctx, options)
	case conn.IsClosed():
		return nil, driver.ErrBadConn
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: `BEGIN; ` + guardWrites(known)})
	if err != nil {
		return nil, writesRefused(ctx, conn, known, err)
	}
	return begun{ctx, tx}, nil
}

// begun is a transaction as database/sql wants it.
type begun struct {
	ctx context.Context
	tx  pgx.Tx
}

func (b begun) Commit() error   { return b.tx.Commit(b.ctx) }
func (b begun) Rollback() error { return b.tx.Rollback(b.ctx) }

// alter tries again, for as long as ctx lasts, what did not get a lock in time.
func (d *postgresDialect) alter(ctx context.Context, write *sql.DB, apply func(*sql.Tx) error, tell func(holders string)) error {
	beside := stdlib.OpenDB(*d.config) // connects when it asks; a session that counts as no instance
	defer beside.Close()
	defer tell("")
	var told time.Time
	var holders string
	for {
		var asking *sql.DB
		if time.Since(told) >= d.locking.told {
			asking = beside
		}
		found, err := d.tryAlter(ctx, write, apply, asking)
		holders = cmp.Or(found, holders)
		if refused := new(pgconn.PgError); errors.As(err, &refused) && (refused.Code == lockNotAvailable || refused.Code == deadlockDetected) {
			holders = cmp.Or(holders, "somebody of whom the server does not tell")
		} else if err == nil || ctx.Err() == nil || holders == "" {
			return err
		}
		if asking != nil && ctx.Err() == nil {
			told = time.Now()
			tell(holders)
		}
		select {
		case <-time.After(d.locking.pause):
		case <-ctx.Done():
			return fmt.Errorf("%w while a change of the schema waited for %s: %w", ctx.Err(), holders, err)
		}
	}
}

// tryAlter is one try, during which asking, if any, asks whom it waits for.
func (d *postgresDialect) tryAlter(ctx context.Context, write *sql.DB, apply func(*sql.Tx) error, asking *sql.DB) (holders string, err error) {
	var asked sync.WaitGroup
	trying, ended := context.WithCancel(ctx)
	err = inTransaction(ctx, write, func(tx *sql.Tx) error {
		var pid int
		err := tx.QueryRowContext(ctx, `SELECT pg_backend_pid() FROM set_config('lock_timeout', $1, true)`,
			fmt.Sprint(d.locking.timeout.Milliseconds())).Scan(&pid)
		if err != nil {
			return err
		}
		if asking != nil {
			asked.Go(func() { holders = d.holders(trying, asking, pid) })
		}
		_, err = tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(`+lockSpace+`, hashtext(current_schema()))`)
		if err != nil {
			return fmt.Errorf("waiting for the migrations of other instances: %w", err)
		}
		return apply(tx)
	})
	ended()
	asked.Wait()
	return holders, err
}

// holders says who holds what a process of the server waits for, a moment after it
// began to wait; empty if ctx ends before. The statements of others stay with them:
// they may hold secrets.
func (d *postgresDialect) holders(ctx context.Context, from *sql.DB, pid int) string {
	for {
		select {
		case <-time.After(d.locking.timeout / 10):
		case <-ctx.Done():
			return ""
		}
		found, err := query(ctx, from, scanHolder, selectHolders, pid)
		if err != nil || len(found) > 0 {
			return strings.Join(found, "; ")
		}
	}
}

// selectHolders reads a few of those who are in the way. To a role that may not
// know more the server tells the process and its application alone.
const selectHolders = `
	SELECT pid, coalesce(application_name, ''), coalesce(state, ''),
		CASE WHEN application_name = 'pg_dump' THEN 'a backup' WHEN backend_type <> 'client backend' THEN backend_type
			ELSE substring(upper(query) FROM '^\s*(SELECT|WITH|FETCH|COPY|INSERT|UPDATE|DELETE|LOCK|CREATE|ALTER|DROP|BEGIN|VACUUM|ANALYZE|REINDEX)\M') END,
		xact_start
	FROM pg_stat_activity WHERE pid = ANY (pg_blocking_pids($1)) ORDER BY xact_start LIMIT 5`

func scanHolder(row scanner) (string, error) {
	var pid int
	var application, state string
	var kind *string
	var since *time.Time
	if err := row.Scan(&pid, &application, &state, &kind, &since); err != nil {
		return "", err
	}
	holder := fmt.Sprintf("process %d of the application %q", pid, harmless(application))
	if kind != nil {
		holder += ", " + *kind
	}
	if state != "" {
		holder += ", " + state
	}
	if since != nil {
		holder += ", in a transaction since " + since.UTC().Format(time.RFC3339)
	}
	return holder, nil
}

// plainWords are those with which the name of an application begins. What looks like
// a key, a URL or a DSN is none: the name is whatever the other program was given.
var plainWords = regexp.MustCompile(`^(?:[A-Za-z0-9._-]{1,16}(?: |$)){0,4}`)

// harmless is the part of an application's name that may be repeated, as in "psql".
func harmless(application string) string {
	return strings.TrimSpace(plainWords.FindString(application))
}
