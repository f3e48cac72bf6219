// Package ledger keeps what was paid: one row per money movement with its
// evidence, the x402 authorizations that were sent to a facilitator, and the
// sums over both. Everything that belongs together is written in one durable
// transaction; a method that returned nil has been committed to disk.
package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

var (
	// ErrNotOpen is returned by every method before Open and after Close.
	ErrNotOpen = errors.New("the ledger is not open")
	// ErrInUse is returned by Open when another process or handle has the
	// ledger open.
	ErrInUse = errors.New("the ledger is in use by another process")
	// ErrNewerSchema is returned by Open for a ledger written by a later
	// version of this program.
	ErrNewerSchema = errors.New("the ledger was written by a newer version")
)

// Ledger is a handle to one database. It is safe for concurrent use.
type Ledger struct {
	dialect dialect
	now     func() time.Time

	// opening serializes Open and Close; mu is held only for as long as an
	// operation runs, so that nothing waits for a migration.
	opening sync.Mutex
	mu      sync.RWMutex
	db      *database
}

// database is what an open ledger holds.
type database struct {
	lock        io.Closer
	write, read *sql.DB
}

// Open creates or migrates the database and checks that its commits are
// durable. It is idempotent: an open ledger stays as it is. Errors: ErrInUse,
// ErrNewerSchema, or what the database says.
func (l *Ledger) Open(ctx context.Context) error {
	l.opening.Lock()
	defer l.opening.Unlock()
	if l.db != nil {
		return nil
	}
	db := new(database)
	if err := db.open(ctx, l.dialect); err != nil {
		return fmt.Errorf("opening the ledger %s: %w", l.dialect.name(), errors.Join(err, db.close()))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.db = db
	return nil
}

// Close waits for running operations and releases the database. It is
// idempotent and does nothing for a nil or unopened ledger.
func (l *Ledger) Close() error {
	if l == nil {
		return nil
	}
	l.opening.Lock()
	defer l.opening.Unlock()
	l.mu.Lock()
	db := l.db
	l.db = nil
	l.mu.Unlock()
	if db == nil {
		return nil
	}
	return db.close()
}

func (db *database) open(ctx context.Context, d dialect) (err error) {
	if db.lock, err = d.acquire(ctx); err != nil {
		return err
	}
	if db.write, db.read, err = d.connect(); err != nil {
		return err
	}
	if err = d.check(ctx, db.write, db.read); err != nil {
		return err
	}
	return migrate(ctx, d, db.write)
}

// close releases the lock last: whoever takes it finds the database closed.
func (db *database) close() error {
	var errs []error
	if db.read != nil {
		errs = append(errs, db.read.Close())
	}
	if db.write != nil {
		errs = append(errs, db.write.Close())
	}
	if db.lock != nil {
		errs = append(errs, db.lock.Close())
	}
	return errors.Join(errs...)
}

// transact runs f in one durable transaction: all of it or nothing.
func (l *Ledger) transact(ctx context.Context, f func(tx *sql.Tx) error) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db == nil {
		return ErrNotOpen
	}
	tx, err := l.db.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning a ledger transaction: %w", err)
	}
	// After a commit this does nothing; its error would hide the first one.
	defer func() { _ = tx.Rollback() }()
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing a ledger transaction: %w", err)
	}
	return nil
}

// collect reads all rows of a query with scan, beside the writer.
func collect[T any](ctx context.Context, l *Ledger, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db == nil {
		return nil, ErrNotOpen
	}
	rows, err := l.db.read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("reading the ledger: %w", err)
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	return all, nil
}

// first returns the only row of a query that gives at most one.
func first[T any](rows []T, err error) (row T, found bool, _ error) {
	if err != nil || len(rows) == 0 {
		return row, false, err
	}
	return rows[0], true, nil
}

// scanner is a *sql.Row or *sql.Rows.
type scanner interface {
	Scan(dest ...any) error
}
