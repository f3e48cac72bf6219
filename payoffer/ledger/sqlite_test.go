package ledger

import (
	"database/sql"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

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

func TestSQLiteDatabaseOfAnotherProgramIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	other := must(sql.Open("sqlite", path))(t)
	must(other.Exec("CREATE TABLE notes (text)"))(t)
	require.NoError(t, other.Close())
	require.ErrorContains(t, NewSQLite(path, time.Now).Open(t.Context()), "another program")
}

func TestSQLiteSecondHandleIsRefusedUntilTheFirstCloses(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "ledger.db")
	l, _ := sqliteTests.ledgerAt(t, path)
	link := filepath.Join(folder, "link.db")
	require.NoError(t, os.Symlink(path, link))
	for _, name := range []string{path, link} {
		second := NewSQLite(name, time.Now)
		err := second.Open(t.Context())
		require.ErrorIs(t, err, errInUse)
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, "ledger file of its own")
	}
	require.NoError(t, l.Close())
	second := NewSQLite(path, time.Now)
	require.NoError(t, second.Open(t.Context()))
	require.NoError(t, second.Close())
}

// releasing lets another program's transaction go when it is in the way.
type releasing struct {
	dialect
	release func()
}

func (d releasing) transient(err error) bool {
	d.release()
	return d.dialect.transient(err)
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
