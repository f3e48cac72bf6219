package ledger

import (
	"context"
	"database/sql"
	"io"
	"io/fs"
)

// dialect is what differs between databases. The statements themselves do
// not: they use $1 placeholders, ON CONFLICT, RETURNING and partial indexes.
type dialect interface {
	// name says in a message which database is meant, without secrets.
	name() string
	// acquire claims the database for this process.
	acquire(ctx context.Context) (io.Closer, error)
	// connect returns the pool that writes and the one that only reads.
	// Every transaction of the first may write from its first statement on.
	connect() (write, read *sql.DB, err error)
	// check refuses a database whose commits would not be durable.
	check(ctx context.Context, write, read *sql.DB) error
	// migrations holds the numbered schema files.
	migrations() fs.FS
	// version reads the number of the last migration, and setVersion stores
	// it in the transaction of that migration.
	version(ctx context.Context, tx *sql.Tx) (int, error)
	setVersion(ctx context.Context, tx *sql.Tx, version int) error
}
