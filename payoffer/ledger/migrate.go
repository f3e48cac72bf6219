package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
)

// migrate applies the schema files that the database has not seen, in order
// of their names, each in one transaction. File n brings version n; known is the
// last one's number. A newer database is left as it is where programs that know
// this version may still write. tell is told what a file waits for.
func migrate(ctx context.Context, d dialect, db *sql.DB, tell func(holders string)) (known int, err error) {
	files, err := fs.Glob(d.migrations(), "*.sql")
	if err != nil {
		return 0, err
	}
	for done := false; !done; {
		err = d.alter(ctx, db, func(tx *sql.Tx) error {
			done, err = migrateOne(ctx, d, tx, files)
			return err
		}, tell)
		if err != nil {
			return 0, err
		}
	}
	return len(files), nil
}

// migrateOne reads the version inside the transaction that raises it, so that
// two processes cannot apply the same file.
func migrateOne(ctx context.Context, d dialect, tx *sql.Tx, files []string) (done bool, err error) {
	version, oldest, err := d.version(ctx, tx)
	switch {
	case err != nil:
		return false, err
	case version == movedVersion:
		return false, errMoved
	case oldest > len(files):
		return false, fmt.Errorf("%w: its schema is version %d and this program knows %d; run the newer program or restore an older copy",
			errNewerSchema, version, len(files))
	case version >= len(files):
		return true, nil
	}
	script, err := fs.ReadFile(d.migrations(), files[version])
	if err != nil {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, string(script)); err != nil {
		return false, fmt.Errorf("applying %s: %w", files[version], err)
	}
	return false, d.setVersion(ctx, tx, version+1)
}

// requireCurrent refuses a database of which this program does not know every
// table and column. known is the number of the last migration.
func requireCurrent(ctx context.Context, d dialect, tx *sql.Tx) (known int, err error) {
	files, err := fs.Glob(d.migrations(), "*.sql")
	if err != nil {
		return 0, err
	}
	switch version, _, err := d.version(ctx, tx); {
	case err != nil:
		return 0, err
	case version == 0:
		return 0, ErrNone
	case version == movedVersion:
		return 0, errMoved
	case version != len(files):
		return 0, fmt.Errorf("its schema is version %d and this program knows %d; use the program that opened it last", version, len(files))
	}
	return len(files), nil
}

// inTransaction runs apply in one transaction.
func inTransaction(ctx context.Context, db *sql.DB, apply func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit this does nothing
	if err := apply(tx); err != nil {
		return err
	}
	return tx.Commit()
}
