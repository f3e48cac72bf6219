package ledger

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"io"
	"io/fs"
)

//go:embed schema
var schemas embed.FS

// dialect is what differs between databases. The statements themselves do
// not: they use $1 placeholders, ON CONFLICT, RETURNING and partial indexes.
type dialect interface {
	// name says in a message which database is meant, without secrets.
	name() string
	// where is the path, or the database and its host, for the operator alone.
	where() string
	// acquire claims the database for this process until Close.
	acquire(ctx context.Context) (io.Closer, error)
	// moved returns an error that wraps ErrLost if the file that acquire claimed is not
	// at its path any more. It returns nil for a database on another machine.
	moved() error
	// alone is the dialect whose acquire and connections keep all others away.
	alone() dialect
	// peek returns a pool that only reads a database which others may have open,
	// and creates nothing.
	peek() (read *sql.DB, err error)
	// connect returns the pool that writes and the one that only reads.
	// Every transaction of the first may write from its first statement on.
	connect() (write, read *sql.DB)
	// prepares says that statements are worth keeping prepared here, for the
	// driver does not do so itself.
	prepares() bool
	// check refuses a database whose commits would not be durable.
	check(ctx context.Context, write, read *sql.DB) error

	// session takes a connection for a transaction that may write.
	session(ctx context.Context, db *database) (session, error)
	// oneWriter says that transactions wait for each other anyway.
	oneWriter() bool

	// migrations holds the numbered schema files.
	migrations() fs.FS
	// version reads the number of the last schema file that was applied; 0 for an
	// empty database. Other processes do not migrate until tx ends.
	version(ctx context.Context, tx *sql.Tx) (version int, err error)
	// setVersion stores it.
	setVersion(ctx context.Context, tx *sql.Tx, version int) error
	// voidLeases ends the leases of processes that are certainly gone.
	voidLeases(ctx context.Context, write *sql.DB) error

	// forUpdate ends a SELECT of a row that the transaction will change.
	forUpdate() string
	// bytewise stands behind a text that is compared byte by byte.
	bytewise() string
	// rows is what a statement reads FROM whose $1 is of inRows: value holds a row each.
	rows() string
	// lock has the transaction wait for others that hold one of the names, until its
	// end. Where transactions wait for each other anyway it does nothing.
	lock(tx *transaction, names ...string)

	// hurry has the commit not wait for the disk, where others that do need not wait
	// for it then: what a crash of the machine takes away may be lost.
	hurry(tx *transaction)
	// require has the transaction fail, so that it is tried again, where a condition does
	// not hold because of what was committed since it began. Where nothing can have
	// been it does nothing.
	require(tx *transaction, condition string, args ...any)

	// unnumbered is the number with which a transition is inserted: its own, or one
	// below 0 until ordering gives it one.
	unnumbered() string
	// ordering are the statements that put the history and the sums in order: all
	// committed transitions get numbers, above those of all that have one, and
	// what is to be added to sums is. Transactions that do so wait for each other.
	ordering() []string

	// advanceNumbers is a statement with which new numbers follow those that a copy
	// has brought; empty if they do anyway.
	advanceNumbers() string

	// transient reports whether err undid a transaction that may succeed when
	// it is tried again.
	transient(err error) bool
	// undone reports whether err of one statement undid all of its transaction,
	// whatever savepoints that has.
	undone(err error) bool
	// conceal takes out of err what names the server or its accounts.
	conceal(err error) error
}

// inRows is any number of rows as one parameter, of which dialect.rows reads each: value ->> 0
// is its first column as text, or a number where the database does not tell them apart.
func inRows(rows [][]any) string {
	text, err := json.Marshal(rows)
	if err != nil {
		panic("ledger: rows of a statement: " + err.Error()) // they are strings, numbers and booleans
	}
	return string(text)
}

// endLeases ends all leases.
const endLeases = `
	UPDATE intents SET lease_until = 0 WHERE state = 'settling';
	UPDATE sinks SET lease_until = 0`

// schemaOf returns the migrations below schema/.
func schemaOf(name string) fs.FS {
	sub, err := fs.Sub(schemas, "schema/"+name)
	if err != nil {
		panic(err) // a constant, valid path
	}
	return sub
}
