// Package ledger stores receipts (one row for each money movement, with its evidence), the
// x402 authorizations that were sent to a facilitator (intents), and the sums of both. A
// method that returns nil has committed its changes to disk, in one transaction.
package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrNotOpen is returned by every method before Open and after Close.
	ErrNotOpen = errors.New("the ledger is not open; wait until the server has started")
	// ErrNoLedger is returned by OpenExisting, Backup and Copy for a database without a ledger.
	ErrNoLedger = errors.New("there is no ledger; run this as the user of the server and in its environment, or write the path of its ledger into the configuration, such as 'ledger sqlite /var/lib/caddy/pay_offer.db'")
	// errInUse is returned by Open if another process or handle has the ledger open.
	errInUse       = errors.New(errInUseText)
	errNewerSchema = errors.New("the ledger was written by a newer version")
	// errMoved is returned by Open, and by new connections, after Retire.
	errMoved = errors.New("the ledger was moved to another database; name that one in the configuration, or move it back into an empty one")
)

const errInUseText = "a server or another command is using this ledger"

// Ledger is a handle to one database. It is safe for concurrent use. A change that failed
// is not stored, except that its outcome is unknown if the connection to PostgreSQL broke
// or the context ended during the commit. Every change may be repeated.
type Ledger struct {
	Logger *slog.Logger // logs that the file was lost; may be nil

	dialect   dialect
	now       func() time.Time
	changes   atomic.Uint64
	exclusive bool // no other process may have the database open

	opening sync.Mutex   // held during Open and Close
	mu      sync.RWMutex // read-locked by each operation
	db      *database    // nil unless it is open
}

func newLedger(d dialect, now func() time.Time) *Ledger {
	return &Ledger{dialect: d, now: now}
}

// database is the state of an open ledger.
type database struct {
	write, read *sql.DB
	closers     []io.Closer // in the order of opening
	present     presence
	writer      *writer // commits all changes; nil on a database with several writers
}

// Open creates or migrates the database and checks that its commits are durable. An open
// ledger stays as it is. On SQLite, leases of an earlier process end.
func (l *Ledger) Open(ctx context.Context) error {
	return l.open(ctx, migrate)
}

// prepareSchema is migrate or requireCurrent.
type prepareSchema func(context.Context, dialect, fs.FS, *sql.Tx) error

func (l *Ledger) open(ctx context.Context, schema prepareSchema) error {
	l.opening.Lock()
	defer l.opening.Unlock()
	if l.db != nil {
		return nil
	}
	db := new(database)
	if err := l.openDatabase(ctx, db, schema); err != nil {
		return fmt.Errorf("opening the ledger %s: %w", l.dialect.name(), l.dialect.conceal(errors.Join(err, db.close())))
	}
	if l.dialect.oneWriter() {
		db.writer = newWriter(l, db)
		db.closers = append(db.closers, db.writer)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.db = db
	l.changes.Add(1)
	return nil
}

// Changes returns a counter that grows after each commit by this handle that may have
// changed a receipt or a sum, and when the ledger opens.
func (l *Ledger) Changes() uint64 { return l.changes.Load() }

func (l *Ledger) logger() *slog.Logger {
	return cmp.Or(l.Logger, slog.New(slog.DiscardHandler))
}

// OpenExclusive is Open, and excludes other processes until Close, on PostgreSQL too.
func (l *Ledger) OpenExclusive(ctx context.Context) error {
	l.exclusive = true
	return l.Open(ctx)
}

// OpenExisting is OpenExclusive of an existing ledger with the schema of this program.
func (l *Ledger) OpenExisting(ctx context.Context) error {
	read, err := l.dialect.peek()
	if err != nil {
		return fmt.Errorf("opening the ledger %s: %w", l.dialect.name(), err)
	}
	_ = read.Close() // it did not connect
	l.exclusive = true
	return l.open(ctx, requireCurrent)
}

// IsOpen reports whether the ledger is open.
func (l *Ledger) IsOpen() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.db != nil
}

// Name names the database without secrets, such as "the ledger on PostgreSQL".
func (l *Ledger) Name() string { return "the ledger " + l.dialect.name() }

// Where returns the path of the file, or the database and its host, for the operator only.
func (l *Ledger) Where() string { return l.dialect.where() }

// Close waits for running operations and closes the database. The ledger may be nil or
// unopened.
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
	// A server is often stopped right after its file was deleted.
	return errors.Join(l.requirePresent(db, 0), l.dialect.conceal(db.close()))
}

func (l *Ledger) openDatabase(ctx context.Context, db *database, schema prepareSchema) error {
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := l.dialect.open(soon, db, l.exclusive); err != nil {
		return err
	}
	return inTransaction(ctx, db.write, func(tx *sql.Tx) error {
		if err := schema(ctx, l.dialect, schemas, tx); err != nil || !l.dialect.oneWriter() {
			return err
		}
		_, err := tx.ExecContext(ctx, endLeases) // no other process has the file open
		return err
	})
}

// close releases the lock last.
func (db *database) close() (err error) {
	for _, part := range slices.Backward(db.closers) {
		err = errors.Join(err, part.Close())
	}
	return err
}

// CheckWritable returns why a change could not be stored.
func (l *Ledger) CheckWritable(ctx context.Context) error {
	_, err := l.writeStatement(ctx, "beginning a change of the ledger", "SELECT max(seq) FROM transitions")
	return err
}
