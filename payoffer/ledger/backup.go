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

// Backup writes a snapshot of the ledger into a new SQLite file with mode 0600. The file appears only when it is complete, and replaces no other. The ledger may be open here or in another process.
func (l *Ledger) Backup(ctx context.Context, path string) (copied Contents, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return copied, err
	}
	if err := requireNothingAt(path); err != nil {
		return copied, err
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), ".backup")
	if err != nil {
		return copied, err
	}
	defer os.RemoveAll(folder)
	unfinished := filepath.Join(folder, "ledger.db")
	archive := newLedger(&archiveDialect{sqliteDialect{path: unfinished, real: unfinished}}, l.now)
	err = archive.Open(ctx)
	if err == nil {
		copied, err = Copy(ctx, archive, l)
	}
	if err = errors.Join(err, archive.Close()); err != nil {
		return copied, err
	}
	return copied, publish(unfinished, path)
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

func (a *archiveDialect) open(_ context.Context, db *database, _ bool) error {
	if err := createFile(a.real); err != nil {
		return err
	}
	db.write = openSQLite(a.real, "_defensive=1", "_pragma=journal_mode(MEMORY)", "_pragma=synchronous(OFF)", "_pragma=foreign_keys(1)")
	db.write.SetMaxOpenConns(1)
	db.read, db.closers = db.write, []io.Closer{db.write}
	return nil
}

// Restore copies a backup into the ledger, which is open and must be empty. The backup
// stays as it is. The numbers of new receipts continue at the Unix time of now, so that
// none gets one that the lost ledger gave away after the backup.
func (l *Ledger) Restore(ctx context.Context, path string) (restored Contents, err error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return restored, err
	}
	from := NewSQLite(absolute, l.now)
	err = from.snapshot(ctx, func(source *sql.Tx) error {
		if err := requireCurrent(ctx, from.dialect, schemas, source); err != nil {
			return err
		}
		if err := requireIntact(ctx, source); err != nil {
			return err
		}
		restored, err = l.fill(ctx, source, l.now().Unix())
		return err
	})
	_, missing := os.Stat(absolute)
	switch {
	case err == nil:
		return restored, nil
	case errors.Is(missing, fs.ErrNotExist):
		return restored, fmt.Errorf("there is no file %s; name a backup, such as one that 'sudo ls /var/lib/pay-offer/backup' lists", absolute)
	case errors.Is(err, fs.ErrPermission), resultCode(err) == sqlite3.SQLITE_CANTOPEN:
		return restored, fmt.Errorf("this user cannot read %s; give it to the user of the server, such as by 'sudo chown pay-offer %[1]s'", absolute)
	}
	return restored, fmt.Errorf("restoring the backup %s: %w", path, err)
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
