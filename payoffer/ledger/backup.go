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
)

// Backup writes what the ledger holds at one moment into a new SQLite file, and
// returns the number of rows by table. The file appears whole and on disk or not
// at all, with mode 0600, and never in place of another. The ledger may be open
// and written to; one that is not is read beside whoever has it open.
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

// requireNothingAt refuses the name of a file, and that of a log, which would be
// taken for the new file's own.
func requireNothingAt(path string) error {
	for _, name := range []string{path, path + "-wal"} {
		switch _, err := os.Lstat(name); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		default:
			return fmt.Errorf("%s is there already; a backup replaces nothing, name a new file", name)
		}
	}
	return nil
}

// publish gives a finished file its name. Name and content are on disk then.
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

// archiveDialect is a SQLite file that nobody else knows of until it is whole:
// it takes no lock, keeps no log, and may stand on a network disk.
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

// Restore copies a backup, of this version or an earlier one, into the ledger,
// which is open and must hold nothing, as Copy does. The backup stays as it is.
func (l *Ledger) Restore(ctx context.Context, path string) (rows map[string]int64, err error) {
	folder, err := os.MkdirTemp("", "pay_offer")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	// Opened as a ledger, and brought to this version, is a copy.
	opened := filepath.Join(folder, filepath.Base(path))
	real, err := filepath.EvalSymlinks(path) // beside which its log stands
	if err != nil {
		return nil, err
	}
	if err := duplicate(real, opened); err != nil {
		return nil, err
	}
	if err := duplicate(real+"-wal", opened+"-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	from := NewSQLite(opened, l.now)
	if err := from.Open(ctx); err != nil {
		return nil, fmt.Errorf("reading the backup %s: %w", path, err)
	}
	defer from.Close()
	if err := from.requireReal(ctx); err != nil {
		return nil, fmt.Errorf("%s cannot be restored: %w", path, err)
	}
	if err := from.requireIntact(ctx); err != nil {
		return nil, fmt.Errorf("%s is no intact backup: %w", path, err)
	}
	return Copy(ctx, l, from)
}

// requireIntact reads a SQLite file whole.
func (l *Ledger) requireIntact(ctx context.Context) error {
	var verdict string
	var accounts int
	err := l.db.read.QueryRowContext(ctx, `SELECT integrity_check, (SELECT count(*) FROM accounts) FROM pragma_integrity_check`).Scan(&verdict, &accounts)
	switch {
	case err != nil:
		return err
	case verdict != "ok":
		return errors.New(verdict)
	case accounts == 0:
		return errors.New("it holds no account")
	default:
		return nil
	}
}

func duplicate(path, to string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}
