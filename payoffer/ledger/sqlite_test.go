package ledger

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestSQLitePathsWithSpecialCharacters(t *testing.T) {
	for _, name := range []string{"a b", "a?mode=memory", "50%25", "a#b", "a&_pragma=x", "a+b", "ü'\""} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name, name+".db")
			if runtime.GOOS == "windows" && name != "a b" {
				path = filepath.Join(t.TempDir(), "a b.db")
			}
			sqliteTests.ledgerAt(t, path)
			info := must(os.Stat(path))(t)
			require.NotZero(t, info.Size(), "the schema went to another file")
		})
	}
}

func TestSQLiteFolderAndFilesArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no permission bits")
	}
	folder := filepath.Join(t.TempDir(), "new")
	sqliteTests.ledgerAt(t, filepath.Join(folder, "ledger.db"))
	info := must(os.Stat(folder))(t)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	files := must(os.ReadDir(folder))(t)
	require.GreaterOrEqual(t, len(files), 3)
	for _, file := range files {
		info := must(file.Info())(t)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file.Name())
	}
}

func TestSQLiteCommitsAreDurable(t *testing.T) {
	l, _ := sqliteTests.ledger(t)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		var got string
		require.NoError(t, l.db.write.QueryRow("PRAGMA "+pragma).Scan(&got))
		require.Equal(t, want, got, pragma)
	}
	require.ErrorContains(t, errorOf(l.db.read.Exec("DELETE FROM accounts")), "readonly")
}

func TestSQLiteRefusesForeignDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	other := must(sql.Open("sqlite", path))(t)
	must(other.Exec("CREATE TABLE notes (text)"))(t)
	require.NoError(t, other.Close())
	require.ErrorContains(t, NewSQLite(path, time.Now).Open(t.Context()), "another program")
}

// To close any descriptor of a file ends the locks that its process has on it.
func TestSQLiteRefusedSecondHandleKeepsLocks(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path, link := filepath.Join(folder, "ledger.db"), filepath.Join(folder, "link.db")
	l, _ := sqliteTests.ledgerAt(t, path)
	require.NoError(t, os.Symlink(path, link))
	for _, name := range []string{path, link} {
		err := NewSQLite(name, time.Now).Open(t.Context())
		require.ErrorIs(t, err, errInUse)
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, "Several servers need a ledger file each")
		require.Contains(t, child(t, "leave WAL", path), "locked")
		require.Contains(t, child(t, "open", name), errInUse.Error())
	}
	require.NoError(t, l.Close())
	require.NoError(t, openAndClose(path))
}

// releasing lets another program's transaction go when it is in the way.
type releasing struct {
	dialect
	release func()
}

func (r releasing) transient(err error) bool {
	r.release()
	return r.dialect.transient(err)
}

func TestSQLiteWriteWaitsForAnotherProgram(t *testing.T) {
	path := sqliteTests.create(t)
	l, _ := sqliteTests.ledgerAt(t, path)
	must(l.db.write.Exec("PRAGMA busy_timeout = 1"))(t)
	backup := openSQLite(path, "_txlock=immediate")
	defer backup.Close()
	tx := must(backup.Begin())(t)

	require.ErrorContains(t, l.InsertIntent(t.Context(), testIntent("0xaa", "0x01")), "locked", "not for ever")
	l.dialect = releasing{l.dialect, func() { _ = tx.Rollback() }}
	require.NoError(t, l.InsertIntent(t.Context(), testIntent("0xaa", "0x01")))
}

// roles are what a child of this test binary does with the file where.
var roles = map[string]func(where string) error{
	"open": openAndClose,
	"back up": func(where string) error {
		_, err := NewSQLite(where, time.Now).Backup(context.Background(), where+".copy")
		return errors.Join(err, os.RemoveAll(where+".copy"))
	},
	// No other connection may have the database open.
	"leave WAL": func(where string) error {
		db := openSQLite(where)
		defer db.Close()
		var mode string
		return db.QueryRow("PRAGMA journal_mode = DELETE").Scan(&mode)
	},
}

func openAndClose(where string) error {
	l := NewSQLite(where, time.Now)
	return errors.Join(l.Open(context.Background()), l.Close())
}

// child plays a role in another process, and returns what it said to fail.
func child(t *testing.T, role, where string) string {
	t.Helper()
	return said(t, exec.Command(os.Args[0]), role, where)
}

func said(t *testing.T, command *exec.Cmd, role, where string) string {
	t.Helper()
	command.Env = append(os.Environ(), childDialect+"="+role, childWhere+"="+where)
	out, err := command.CombinedOutput()
	if failed := new(exec.ExitError); !errors.As(err, &failed) {
		require.NoError(t, err)
	}
	return string(out)
}

func TestSQLiteLockCoversFileAndName(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path, moved := filepath.Join(folder, "ledger.db"), filepath.Join(folder, "moved.db")
	l, _ := sqliteTests.ledgerAt(t, path)
	require.Contains(t, child(t, "open", path), errInUse.Error())
	require.NoError(t, os.Rename(path, moved))
	require.Contains(t, child(t, "open", path), errInUse.Error(), "a new file at the path")
	require.NoError(t, os.Rename(moved, path))

	require.NoError(t, os.Remove(path+".lock"))
	require.Contains(t, child(t, "open", path), errInUse.Error(), "without the lock file")
	require.NoError(t, os.Rename(path, moved))
	require.Contains(t, child(t, "open", moved), errInUse.Error(), "by another name")
	require.NoError(t, os.Rename(moved, path))

	mustRecord(t, l, chainObservation("0xa", StatusConfirmed))
	require.NoError(t, l.Close())
	require.Empty(t, child(t, "open", path), "free with the end of the first")
	again, _ := sqliteTests.ledgerAt(t, path)
	receipts := must(again.Receipts(t.Context(), testOffer, 0, 10))(t)
	require.Len(t, receipts, 1)
}

func TestSQLiteRefusesHardLinks(t *testing.T) {
	t.Parallel()
	folder, other := t.TempDir(), t.TempDir()
	path, second := filepath.Join(folder, "ledger.db"), filepath.Join(other, "ledger.db")
	require.NoError(t, openAndClose(path))
	require.NoError(t, os.Link(path, second))
	for _, name := range []string{path, second} {
		err := openAndClose(name)
		require.ErrorContains(t, err, "has 2 names (hard links)")
		require.ErrorContains(t, err, "mount the folder")
	}
	require.NoError(t, os.Remove(second))
	l, _ := sqliteTests.ledgerAt(t, path)
	require.NoError(t, os.Link(path, second)) // while it is open
	require.Contains(t, child(t, "open", second), "hard links")
	require.NoError(t, l.Close())
}

func TestIsMountParsesMountInfo(t *testing.T) {
	const mounts = `22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 8:1 /srv/l.db /data/l.db rw,relatime master:1 - ext4 /dev/sda1 rw
31 22 8:1 /srv /with\040space\134/l.db rw,relatime - ext4 /dev/sda1 rw
32 22 0:5 / /folder rw - tmpfs tmpfs rw
`
	for path, want := range map[string]bool{
		"/data/l.db": true, `/with space\/l.db`: true, "/folder/l.db": false, "/srv/l.db": false, "/data": false,
	} {
		require.Equal(t, want, isMount(mounts, path), path)
	}
}

// A power cut or a failing disk damages pages that no payment reads for months.
func TestSQLiteDamagedFileIsDetected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, _ := sqliteTests.ledgerAt(t, path)
	var log strings.Builder
	l.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	for n := range 50 {
		mustRecord(t, l, chainObservation("0x"+strings.Repeat("a", n+1), StatusConfirmed))
	}
	require.NoError(t, l.Examine(t.Context()))
	must(l.db.write.Exec("PRAGMA wal_checkpoint(TRUNCATE)"))(t)
	damage(t, l, path)
	require.NoError(t, l.StoreQuote(t.Context(), testOffer, 2, 4200, 10_000_000))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		NewDuePoller(l).Run(ctx)
	}()
	require.Eventually(t, func() bool {
		return errors.Is(l.StoreQuote(t.Context(), testOffer, 3, 4200, 10_000_000), ErrDamaged)
	}, 30*time.Second, time.Millisecond)
	cancel()
	<-ended
	require.ErrorIs(t, l.CheckWritable(t.Context()), ErrDamaged)
	require.Equal(t, 1, strings.Count(log.String(), "restore the newest backup"), log.String())
	require.ErrorIs(t, l.Close(), ErrDamaged)
}

// damage overwrites the index of the transitions.
func damage(t *testing.T, l *Ledger, path string) {
	t.Helper()
	var page, size int64
	require.NoError(t, l.db.read.QueryRow("SELECT rootpage FROM sqlite_schema WHERE name = 'transitions_offer'").Scan(&page))
	require.NoError(t, l.db.read.QueryRow("PRAGMA page_size").Scan(&size))
	file := must(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer file.Close()
	_, err := io.Copy(io.NewOffsetWriter(file, (page-1)*size+size/2), strings.NewReader(strings.Repeat("x", int(size/2))))
	require.NoError(t, err)
}

func TestPostgresErrorsHaveRemedy(t *testing.T) {
	for code, remedy := range map[string]string{
		"53100": "free space on the disk of the database server", "42501": "GRANT", "25006": "the database is read-only", "XX001": "restore",
	} {
		require.ErrorContains(t, new(postgresDialect).conceal(&pgconn.PgError{Code: code}), "; "+remedy)
	}
}
