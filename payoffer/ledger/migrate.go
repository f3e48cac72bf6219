package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
)

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
	tx, err := db.BeginTx(ctx, d.options())
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
			ErrNewerSchema, version, len(files))
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
