package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
)

// migrate applies the missing files of schemas in the order of their names. File n brings version n.
func migrate(ctx context.Context, d dialect, schemas fs.FS, tx *sql.Tx) error {
	version, files, err := schemaVersion(ctx, d, schemas, tx)
	if err != nil || version == len(files) {
		return err
	}
	for _, file := range files[version:] {
		script, err := fs.ReadFile(schemas, file)
		if err == nil {
			_, err = tx.ExecContext(ctx, string(script))
		}
		if err != nil {
			return fmt.Errorf("applying %s: %w", file, err)
		}
	}
	return d.setVersion(ctx, tx, len(files))
}

// requireCurrent rejects a database with another schema than that of this program.
func requireCurrent(ctx context.Context, d dialect, schemas fs.FS, tx *sql.Tx) error {
	version, files, err := schemaVersion(ctx, d, schemas, tx)
	switch {
	case err != nil:
		return err
	case version == 0:
		return ErrNoLedger
	case version != len(files):
		return fmt.Errorf("its schema is version %d and this program knows %d; run the version of the program that opened it last", version, len(files))
	}
	return nil
}

// schemaVersion reads the version of the database, which stays until tx ends, and lists the files of the schema.
func schemaVersion(ctx context.Context, d dialect, schemas fs.FS, tx *sql.Tx) (version int, files []string, err error) {
	if files, err = fs.Glob(schemas, d.schema()+"/*.sql"); err != nil {
		return 0, nil, err
	}
	version, err = d.version(ctx, tx)
	switch {
	case err == nil && version == movedVersion:
		err = errMoved
	case err == nil && version > len(files):
		err = fmt.Errorf("%w: its schema is version %d and this program knows %d; "+
			"run the newer program, or restore a backup of this version", errNewerSchema, version, len(files))
	}
	return version, files, err
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
