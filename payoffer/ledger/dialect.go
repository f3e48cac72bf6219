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

// dialect is what differs between databases. The statements themselves do
// not: they use $1 placeholders, ON CONFLICT, RETURNING and partial indexes.
type dialect interface {
	// name says in a message which database is meant, without secrets.
	name() string
	// acquire claims the database for this process; nil where several share it.
	acquire(ctx context.Context) (io.Closer, error)
	// connect returns the pool that writes and the one that only reads.
	// Every transaction of the first may write from its first statement on.
	connect() (write, read *sql.DB, err error)
	// prepares says that statements are worth keeping prepared here, for the
	// driver does not do so itself.
	prepares() bool
	// check refuses a database whose commits would not be durable.
	check(ctx context.Context, write, read *sql.DB) error

	// migrations holds the numbered schema files.
	migrations() fs.FS
	// version keeps other processes from migrating until the transaction ends
	// and reads the number of the last migration. setVersion stores it in the
	// transaction of that migration.
	version(ctx context.Context, tx *sql.Tx) (int, error)
	setVersion(ctx context.Context, tx *sql.Tx, version int) error
	// voidLeases ends the leases of processes that are certainly gone.
	voidLeases(ctx context.Context, write *sql.DB) error

	// options are those of every writing transaction.
	options() *sql.TxOptions
	// forUpdate ends a SELECT of a row that the transaction will change.
	forUpdate() string
	// orderHistory makes the numbers of transitions follow the order of
	// commits: the next transaction that calls it waits for the end of this.
	orderHistory(ctx context.Context, tx *sql.Tx) error

	// transient reports whether err undid a transaction that may succeed when
	// it is tried again.
	transient(err error) bool
	// conceal takes out of err what names the server or its accounts.
	conceal(err error) error
}

// schemaOf returns the migrations below schema/.
func schemaOf(name string) fs.FS {
	sub, err := fs.Sub(schemas, "schema/"+name)
	if err != nil {
		panic(err) // a constant, valid path
	}
	return sub
}
