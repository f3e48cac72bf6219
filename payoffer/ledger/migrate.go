package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
)

// migrate applies the missing files of schemas in the order of their names, each in one
// transaction. File n brings version n.
func migrate(ctx context.Context, d dialect, schemas fs.FS, db *sql.DB) error {
	files, err := fs.Glob(schemas, d.schema()+"/*.sql")
	if err != nil {
		return err
	}
	for done := false; !done; {
		err := inTransaction(ctx, db, func(tx *sql.Tx) error {
			done, err = migrateOne(ctx, d, schemas, tx, files)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// migrateOne reads the version in the same transaction, so that no other process applies
// the same file.
func migrateOne(ctx context.Context, d dialect, schemas fs.FS, tx *sql.Tx, files []string) (done bool, err error) {
	version, err := d.version(ctx, tx)
	switch {
	case err != nil:
		return false, err
	case version == movedVersion:
		return false, errMoved
	case version > len(files):
		return false, fmt.Errorf("%w: its schema is version %d and this program knows %d; run the newer program, or restore a backup of this version",
			errNewerSchema, version, len(files))
	case version == len(files):
		return true, nil
	}
	script, err := fs.ReadFile(schemas, files[version])
	if err != nil {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, string(script)); err != nil {
		return false, fmt.Errorf("applying %s: %w", files[version], err)
	}
	return false, d.setVersion(ctx, tx, version+1)
}

// requireCurrent rejects a database with another schema than that of this program.
func requireCurrent(ctx context.Context, d dialect, tx *sql.Tx) error {
	files, err := fs.Glob(schemas, d.schema()+"/*.sql")
	if err != nil {
		return err
	}
	switch version, err := d.version(ctx, tx); {
	case err != nil:
		return err
	case version == 0:
		return ErrNoLedger
	case version == movedVersion:
		return errMoved
	case version != len(files):
		return fmt.Errorf("its schema is version %d and this program knows %d; run the version of the program that opened it last", version, len(files))
	}
	return nil
}

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
