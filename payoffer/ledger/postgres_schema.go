package ledger

import (
	"context"
	"database/sql"
	"io/fs"
)

func (d *postgresDialect) migrations() fs.FS { return schemaOf("postgres") }

// version waits for other instances that migrate: the lock lasts as long as the
// transaction.
func (d *postgresDialect) version(ctx context.Context, tx *sql.Tx) (version int, err error) {
	if _, err = tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(`+lockSpace+`, hashtext(current_schema()))`); err != nil {
		return 0, err
	}
	// Not to_regclass, which may answer from a cache older than the lock.
	var exists bool
	err = tx.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'pay_offer_schema')`).
		Scan(&exists)
	if err != nil || !exists {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, `SELECT version FROM pay_offer_schema`).Scan(&version)
	return version, err
}

func (d *postgresDialect) setVersion(ctx context.Context, tx *sql.Tx, version int) error {
	_, err := tx.ExecContext(ctx, `UPDATE pay_offer_schema SET version = $1`, version)
	return err
}
