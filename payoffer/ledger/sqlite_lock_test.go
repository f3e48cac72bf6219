package ledger

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// roles are what a child of this test binary does with the file where.
var roles = map[string]func(where string) error{
	"open": openAndClose,
	"back up": func(where string) error {
		_, err := NewSQLite(where, time.Now).Backup(context.Background(), where+".copy")
		return errors.Join(err, os.RemoveAll(where+".copy"))
	},
	// So does every version before the lock of the file itself.
	"claim": func(where string) error {
		db := openSQLite(where+".lock", "_txlock=exclusive")
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		return errors.Join(tx.Rollback(), db.Close())
	},
	// It needs that nobody else has the database open.
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

func TestSQLiteLockIsThatOfTheFileAndOfItsName(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path, moved := filepath.Join(folder, "ledger.db"), filepath.Join(folder, "moved.db")
	l, _ := sqliteTests.ledgerAt(t, path)
	require.Contains(t, child(t, "open", path), errInUse.Error())
	require.Contains(t, child(t, "claim", path), "locked", "an earlier version is kept out")

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

func TestSQLiteLockGuardsTheNameOfAReplacedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	sqliteTests.ledgerAt(t, path)
	require.NoError(t, os.Rename(path, path+".before"))
	require.Contains(t, child(t, "open", path), errInUse.Error())
}

// To close any descriptor of a file ends the locks that its process has on it.
func TestSQLiteKeepsItsLocksWhenASecondHandleIsRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path, link := filepath.Join(folder, "ledger.db"), filepath.Join(folder, "link.db")
	sqliteTests.ledgerAt(t, path)
	require.NoError(t, os.Symlink(path, link))
	for _, name := range []string{path, link} {
		require.ErrorIs(t, NewSQLite(name, time.Now).Open(t.Context()), errInUse)
		require.Contains(t, child(t, "leave WAL", path), "locked")
		require.Contains(t, child(t, "claim", path), "locked")
		require.Contains(t, child(t, "open", name), errInUse.Error())
	}
}

func TestSQLiteFileWithTwoNamesIsRefused(t *testing.T) {
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

func TestMountsOfAFileAreKnownFromTheList(t *testing.T) {
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
