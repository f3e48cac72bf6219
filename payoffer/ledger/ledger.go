// Package ledger keeps what was paid: one row per money movement with its
// evidence, the x402 authorizations that were sent to a facilitator, and the
// sums over both. Everything that belongs together is written in one durable
// transaction; a method that returned nil has been committed to disk.
package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrNotOpen is returned by every method before Open and after Close.
	ErrNotOpen = errors.New("the ledger is not open")
	// ErrNone is returned by OpenAsItIs, and by Backup and Copy of an unopened ledger,
	// for a database that is not there or has no ledger.
	ErrNone = errors.New("there is no ledger; run this as the server's user and in its environment, or write the path of the server's ledger into the configuration, as in 'ledger sqlite /var/lib/caddy/pay_offer.db'")
	// errInUse is returned by Open when another process or handle has the
	// ledger open.
	errInUse = errors.New("the ledger is in use by another process")
	// errNewerSchema is returned by Open for a ledger that a later version of this
	// program has migrated.
	errNewerSchema = errors.New("the ledger was written by a newer version")
	// errMoved is returned by Open, and on PostgreSQL by every new connection, for a
	// ledger that Retire ended.
	errMoved = errors.New("the ledger was moved to another database: name that one in the configuration, or move it back into an empty one")
)

// Ledger is a handle to one database. It is safe for concurrent use.
//
// A change that failed has not been stored, with one exception: where the
// connection to PostgreSQL broke or the context ended during the commit, the
// outcome is unknown. Every change may be repeated.
type Ledger struct {
	// Logger logs that the file was lost; nil logs nothing.
	Logger *slog.Logger

	dialect dialect
	now     func() time.Time
	// changes counts what Changes tells of.
	changes atomic.Uint64

	// opening serializes Open and Close; mu is held only for as long as an
	// operation runs, so that nothing waits for a migration.
	opening chan struct{}
	mu      sync.RWMutex
	db      *database
}

func newLedger(d dialect, now func() time.Time) *Ledger {
	return &Ledger{dialect: d, now: now, opening: make(chan struct{}, 1)}
}

// database is what an open ledger holds.
type database struct {
	write, read *sql.DB
	parts       []io.Closer // both, and before them what acquire gave
	// writes and reads are the prepared statements of both.
	writes, reads *prepared
	present       presence
	// writer makes the changes where there is no other; nil where there are.
	writer *writer
	// gatherer makes those that ask for nothing.
	gatherer *writer
	// sequencer puts them in order where several are made at once; else nil.
	sequencer *sequencer
}

// Open creates or migrates the database and checks that its commits are
// durable. It is idempotent: an open ledger stays as it is. Leases of an
// earlier process end where no other process can be at work, on SQLite.
// Errors: errInUse, errNewerSchema, errMoved, or what the database says.
func (l *Ledger) Open(ctx context.Context) error {
	return l.open(ctx, func(ctx context.Context, write *sql.DB) error {
		return migrate(ctx, l.dialect, write)
	})
}

// open opens the database; schema makes its schema fit, or refuses it.
func (l *Ledger) open(ctx context.Context, schema func(ctx context.Context, write *sql.DB) error) error {
	select {
	case l.opening <- struct{}{}:
		defer func() { <-l.opening }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.db != nil {
		return nil
	}
	db := new(database)
	if err := db.open(ctx, l.dialect, schema); err != nil {
		return fmt.Errorf("opening the ledger %s: %w", l.dialect.name(), l.dialect.conceal(errors.Join(err, db.close())))
	}
	if l.dialect.oneWriter() {
		db.writer = newWriter(l, db, false)
		db.gatherer = db.writer
		db.parts = append(db.parts, db.writer)
	} else {
		db.gatherer = newWriter(l, db, true)
		db.sequencer = newSequencer(l, db)
		db.parts = append(db.parts, db.gatherer, db.sequencer)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.db = db
	l.changes.Add(1)
	return nil
}

// Changes grows whenever this handle may have changed what a report of receipts
// says: after each commit that touched a receipt or a sum, also one whose outcome
// is unknown, and when the ledger opens. A reading that began after it was read
// holds all of them. Changes by other processes do not show here.
func (l *Ledger) Changes() uint64 { return l.changes.Load() }

func (l *Ledger) logger() *slog.Logger {
	return cmp.Or(l.Logger, slog.New(slog.DiscardHandler))
}

// OpenAlone is Open, which also fails where another process has a ledger on
// PostgreSQL open, and keeps others from opening it until Close.
func (l *Ledger) OpenAlone(ctx context.Context) error {
	l.dialect = l.dialect.alone()
	return l.Open(ctx)
}

// OpenAsItIs is OpenAlone of a ledger that is there, with the schema of this
// program: it makes none, and migrates none.
func (l *Ledger) OpenAsItIs(ctx context.Context) error {
	read, err := l.dialect.peek()
	if err != nil {
		return fmt.Errorf("opening the ledger %s: %w", l.dialect.name(), err)
	}
	_ = read.Close() // it did not connect
	l.dialect = l.dialect.alone()
	return l.open(ctx, func(ctx context.Context, write *sql.DB) error {
		return inTransaction(ctx, write, func(tx *sql.Tx) error { return requireCurrent(ctx, l.dialect, tx) })
	})
}

// IsOpen reports whether the ledger is open.
func (l *Ledger) IsOpen() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.db != nil
}

// Name says which database it is, without secrets, as in "the ledger on PostgreSQL".
func (l *Ledger) Name() string { return "the ledger " + l.dialect.name() }

// Where returns the path of the file, or the database and the host of PostgreSQL. It
// contains no secret, and is for the operator alone.
func (l *Ledger) Where() string { return l.dialect.where() }

// Close waits for running operations and releases the database. It is
// idempotent and does nothing for a nil or unopened ledger.
func (l *Ledger) Close() error {
	if l == nil {
		return nil
	}
	l.opening <- struct{}{}
	defer func() { <-l.opening }()
	l.mu.Lock()
	db := l.db
	l.db = nil
	l.mu.Unlock()
	if db == nil {
		return nil
	}
	// A server is often restarted right after its file was deleted.
	return errors.Join(l.requirePresent(db, 0), l.dialect.conceal(db.close()))
}

func (db *database) open(ctx context.Context, d dialect, schema func(ctx context.Context, write *sql.DB) error) error {
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	lock, err := d.acquire(soon)
	if err != nil {
		return err
	}
	db.write, db.read = d.connect()
	db.parts = []io.Closer{lock, db.write, db.read}
	if d.prepares() {
		db.writes, db.reads = &prepared{db: db.write}, &prepared{db: db.read}
	}
	if err = d.check(soon, db.write, db.read); err != nil {
		return err
	}
	if err = schema(ctx, db.write); err != nil {
		return err
	}
	return d.voidLeases(ctx, db.write)
}

// close releases the lock last: whoever takes it finds the database closed.
func (db *database) close() (err error) {
	for _, part := range slices.Backward(db.parts) {
		err = errors.Join(err, part.Close())
	}
	return err
}
