package ledger

import (
	"context"
	"database/sql"
	"embed"
	"io"
	"io/fs"
)

//go:embed schema
var schemas embed.FS

// dialect implements the differences between databases. They share the statements, with $1
// placeholders, ON CONFLICT, RETURNING and partial indexes.
type dialect interface {
	name() string  // for messages, without secrets
	where() string // the path, or the database and its host, for the operator only

	// acquire locks the database for this process until Close.
	acquire(ctx context.Context) (io.Closer, error)
	// moved returns an error that wraps ErrLost if the locked file is not at its path.
	moved() error
	// exclusive returns the dialect that excludes other processes.
	exclusive() dialect
	// peek returns a pool that only reads and creates nothing.
	peek() (read *sql.DB, err error)
	// connect returns a pool whose transactions write, and one that only reads.
	connect() (write, read *sql.DB)
	// check returns an error if commits would not be durable.
	check(ctx context.Context, write, read *sql.DB) error
	// session begins a transaction that may write.
	session(ctx context.Context, db *database) (session, error)
	// oneWriter reports whether transactions wait for each other anyway.
	oneWriter() bool

	migrations() fs.FS // the numbered schema files
	// version reads the number of applied schema files, and keeps other processes from
	// migrating until tx ends.
	version(ctx context.Context, tx *sql.Tx) (version int, err error)
	setVersion(ctx context.Context, tx *sql.Tx, version int) error
	// voidLeases ends the leases of processes that have certainly ended.
	voidLeases(ctx context.Context, write *sql.DB) error

	forUpdate() string // ends a SELECT of a row that the transaction will change
	bytewise() string  // follows a text that is compared byte by byte
	rows() string      // the FROM of a statement whose $1 is a JSON array of rows; each row is a value
	// lock makes the transaction wait for others with one of the names, if transactions
	// do not wait for each other anyway.
	lock(tx *transaction, names ...string)
	// commitAsync makes the commit not wait for the disk, if that helps other transactions.
	// A crash of the machine may lose it.
	commitAsync(tx *transaction)
	// abortUnless makes the transaction fail, and run again, if a condition is false
	// because of changes that were committed since it began.
	abortUnless(tx *transaction, condition string, args ...any)

	// unnumbered is the number of a new transition: final, or below 0 until it is ordered.
	unnumbered() string
	// ordering returns the statements that number all committed transitions and add the
	// changes to the sums. Transactions with them wait for each other.
	ordering() []string
	// advanceNumbers is a statement that makes new numbers follow copied ones; empty if they
	// do anyway.
	advanceNumbers() string

	// transient reports whether a transaction may succeed at the next attempt.
	transient(err error) bool
	// undone reports whether the error of a statement rolled back the transaction, despite
	// savepoints.
	undone(err error) bool
	// conceal removes names of servers and accounts from an error.
	conceal(err error) error
}

const endLeases = `
	UPDATE intents SET lease_until = 0 WHERE state = 'settling';
	UPDATE subscribers SET lease_until = 0`

func schemaOf(name string) fs.FS {
	sub, err := fs.Sub(schemas, "schema/"+name)
	if err != nil {
		panic(err) // a constant, valid path
	}
	return sub
}
