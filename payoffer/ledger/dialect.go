package ledger

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
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
	// acquire claims the database for this process until Close.
	acquire(ctx context.Context) (io.Closer, error)
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

	// migrations holds the numbered schema files.
	migrations() fs.FS
	// version keeps other processes from migrating until the transaction ends
	// and reads the number of the last migration. setVersion stores it in the
	// transaction of that migration.
	version(ctx context.Context, tx *sql.Tx) (int, error)
	setVersion(ctx context.Context, tx *sql.Tx, version int) error
	// voidLeases ends the leases of processes that are certainly gone.
	voidLeases(ctx context.Context, write *sql.DB) error

	// forUpdate ends a SELECT of a row that the transaction will change.
	forUpdate() string
	// orderHistory makes the numbers of transitions follow the order of
	// commits: the next transaction that calls it waits for the end of this.
	orderHistory(ctx context.Context, tx *sql.Tx) error

	// booleans are the columns, as in "receipts.own", that take true and false
	// where others have 1 and 0.
	booleans(ctx context.Context, tx *sql.Tx) (map[string]bool, error)
	// overriding stands before the VALUES of an INSERT that brings its numbers, and
	// advanceNumbers makes the next ones follow.
	overriding() string
	advanceNumbers(ctx context.Context, tx *sql.Tx) error

	// transient reports whether err undid a transaction that may succeed when
	// it is tried again.
	transient(err error) bool
	// conceal takes out of err what names the server or its accounts.
	conceal(err error) error
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

// migrate applies the schema files that the database has not seen, in order
// of their names, each in one transaction. File n brings version n.
func migrate(ctx context.Context, d dialect, db *sql.DB) error {
	files, err := fs.Glob(d.migrations(), "*.sql")
	if err != nil {
		return err
	}
	for done := false; !done; {
		if done, err = migrateOne(ctx, d, db, files); err != nil {
			return err
		}
	}
	return nil
}

// migrateOne reads the version inside the transaction that raises it, so that
// two processes cannot apply the same file.
func migrateOne(ctx context.Context, d dialect, db *sql.DB, files []string) (done bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	version, err := d.version(ctx, tx)
	if err != nil {
		return false, err
	}
	switch {
	case version > len(files):
		return false, fmt.Errorf("%w: its schema is version %d and this program knows %d; run the newer program or restore an older copy",
			errNewerSchema, version, len(files))
	case version == len(files):
		return true, nil
	}
	script, err := fs.ReadFile(d.migrations(), files[version])
	if err != nil {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, string(script)); err != nil {
		return false, fmt.Errorf("applying %s: %w", files[version], err)
	}
	if err := d.setVersion(ctx, tx, version+1); err != nil {
		return false, err
	}
	return false, tx.Commit()
}

// requireCurrent refuses a database on which migrate would do anything.
func requireCurrent(ctx context.Context, d dialect, db *sql.DB) error {
	files, err := fs.Glob(d.migrations(), "*.sql")
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	version, err := d.version(ctx, tx)
	if err == nil && version != len(files) {
		err = fmt.Errorf("its schema is version %d and this program knows %d; use the program that opened it last", version, len(files))
	}
	return err
}
