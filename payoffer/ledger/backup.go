package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Backup writes a snapshot of the ledger into a new SQLite file with mode 0600, and returns the
// number of rows by table. The file appears only when it is complete, and replaces no other. The ledger may be open here or in another process.
func (l *Ledger) Backup(ctx context.Context, path string) (rows map[string]int64, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if err := requireNothingAt(path); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), ".backup")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	unfinished := filepath.Join(folder, "ledger.db")
	archive := newLedger(&archiveDialect{sqliteDialect{path: unfinished, real: unfinished}}, l.now)
	err = archive.Open(ctx)
	if err == nil {
		rows, err = Copy(ctx, archive, l)
	}
	if err = errors.Join(err, archive.Close()); err != nil {
		return nil, err
	}
	return rows, publish(unfinished, path)
}

// requireNothingAt rejects a path where a file is, or a WAL, which SQLite would use.
func requireNothingAt(path string) error {
	for _, name := range []string{path, path + "-wal"} {
		if _, err := os.Lstat(name); err == nil {
			return fmt.Errorf("%s already exists and is not overwritten; name a new file", name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// publish gives a complete file its name, and syncs both to the disk.
func publish(unfinished, path string) error {
	if err := flush(unfinished, os.O_RDWR); err != nil {
		return err
	}
	if err := requireNothingAt(path); err != nil {
		return err
	}
	if err := os.Rename(unfinished, path); err != nil {
		return err
	}
	_ = flush(filepath.Dir(path), os.O_RDONLY) // not every system flushes folders
	return nil
}

func flush(path string, flag int) error {
	file, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// archiveDialect is a SQLite file that no other process opens until it is complete. It needs
// no lock and no WAL, and may be on a network disk.
type archiveDialect struct{ sqliteDialect }

func (d *archiveDialect) acquire(context.Context) (io.Closer, error) {
	return io.NopCloser(nil), createFile(d.real)
}

func (d *archiveDialect) connect() (write, read *sql.DB) {
	db := openSQLite(d.real, "_defensive=1", "_pragma=journal_mode(MEMORY)", "_pragma=synchronous(OFF)", "_pragma=foreign_keys(1)")
	db.SetMaxOpenConns(1)
	return db, db
}

func (d *archiveDialect) check(context.Context, *sql.DB, *sql.DB) error { return nil }

// Restore copies a backup into the ledger, which is open and must be empty. The backup
// stays as it is.
func (l *Ledger) Restore(ctx context.Context, path string) (rows map[string]int64, err error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	from := NewSQLite(absolute, l.now)
	err = from.snapshot(ctx, func(source *sql.Tx) error {
		if err := requireCurrent(ctx, from.dialect, source); err != nil {
			return err
		}
		if err := requireIntact(ctx, source); err != nil {
			return err
		}
		rows, err = l.fill(ctx, source)
		return err
	})
	switch {
	case err == nil:
		return rows, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), resultCode(err) == sqlite3.SQLITE_CANTOPEN:
		err = errors.New("this user cannot read such a file; copy it into a folder of the server's user, " +
			"give it to that user with chown, and write its absolute path")
	}
	return nil, fmt.Errorf("restoring the backup %s: %w", path, err)
}

// requireIntact rejects the SQLite file if it is damaged, has no accounts, or is of a demo.
func requireIntact(ctx context.Context, tx *sql.Tx) error {
	var verdict string
	var accounts, demos int
	err := tx.QueryRowContext(ctx, `SELECT integrity_check, (SELECT count(*) FROM accounts), (SELECT count(*) FROM accounts WHERE account = $1)
		FROM pragma_integrity_check`, offer.DemoAccount).Scan(&verdict, &accounts, &demos)
	switch {
	case err != nil:
		return err
	case verdict != "ok":
		return fmt.Errorf("the file is damaged; use another backup: %s", verdict)
	case accounts == 0:
		return errors.New("the file has no receipts of an offer; name the one that 'caddy pay-offer ledger backup' wrote")
	case demos > 0:
		return errDemo
	}
	return nil
}
