package ledger

import (
	"context"
	"database/sql"
	"embed"
)

//go:embed schema
var schemas embed.FS

// dialect implements the differences between databases. They share the statements, with $1
// placeholders, ON CONFLICT, RETURNING and partial indexes.
type dialect interface {
	name() string  // for messages, without secrets
	where() string // the path, or the database and its host, for the operator only

	// open locks the database for this process until its closers are closed, and connects to it.
	// It fails if commits would not be durable. With exclusive, it locks out other processes on
	// every database.
	open(ctx context.Context, db *database, exclusive bool) error
	// moved returns an error that wraps ErrLost if the locked file is not at its path.
	moved() error
	// peek returns a pool that only reads and creates nothing.
	peek() (read *sql.DB, err error)
	// oneWriter reports whether transactions wait for each other anyway.
	oneWriter() bool

	schema() string // the folder of the numbered schema files
	// version reads the number of applied schema files, and keeps other processes from
	// migrating until tx ends.
	version(ctx context.Context, tx *sql.Tx) (version int, err error)
	setVersion(ctx context.Context, tx *sql.Tx, version int) error

	forUpdate() string  // ends a SELECT of rows that the transaction will change
	skipLocked() string // follows forUpdate, to leave out the rows that other transactions change
	// lock makes the transaction wait for others with one of the locks, if transactions
	// do not wait for each other anyway. It is the first statement of a transaction, because
	// later statements see what the others have committed.
	lock(ctx context.Context, tx *sql.Tx, locks ...lock) error
	// commitAsync makes the commit not wait for the disk, if that helps other transactions.
	// A crash of the machine may lose it.
	commitAsync(ctx context.Context, tx *sql.Tx) error
	// lastNumber is a query for the number from which those of receipts continue.
	lastNumber() string
	// advanceNumbers is a statement that makes new numbers follow copied ones, and those of
	// receipts a given one, too.
	advanceNumbers(receipts int64) string

	// transient reports whether a transaction may succeed at the next attempt.
	transient(err error) bool
	// conceal removes names of servers and accounts from an error.
	conceal(err error) error
}

const endLeases = `
	UPDATE intents SET lease_until = 0 WHERE state = 'settling';
	UPDATE subscribers SET lease_until = 0`
