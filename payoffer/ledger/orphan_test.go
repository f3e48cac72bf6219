package ledger

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// killed is the ledger of a process that was killed, and how many payments that
// had acknowledged: the newest stand in the log.
func killed(t *testing.T) (path string, acknowledged int) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "l.db")
	l, _ := sqliteTests.ledgerAt(t, path)
	require.NoError(t, l.Close())
	acknowledged = killAfter(t, sqliteTests, path, 5, 0)
	info := must(os.Stat(path + "-wal"))(t)
	require.Positive(t, info.Size())
	return path, acknowledged
}

func TestTheLogOfALedgerThatWasPutAwayAloneIsKept(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, path string) (opened string){
		"nothing is in its place": func(_ *testing.T, path string) string { return path },
		"an empty file is in its place": func(t *testing.T, path string) string {
			require.NoError(t, os.WriteFile(path, nil, 0o600))
			return path
		},
		"a symbolic link names its place": func(t *testing.T, path string) string {
			link := filepath.Join(t.TempDir(), "link.db")
			require.NoError(t, os.Symlink(path, link))
			return link
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, acknowledged := killed(t)
			old := filepath.Join(filepath.Dir(path), "old.db")
			require.NoError(t, os.Rename(path, old))
			opened := prepare(t, path)
			log := must(os.ReadFile(path + "-wal"))(t)

			for what, open := range map[string]func(*Ledger) error{
				"start":   func(l *Ledger) error { return l.Open(t.Context()) },
				"restore": func(l *Ledger) error { return l.OpenAlone(t.Context()) },
				"check":   func(l *Ledger) error { return l.Check(t.Context()) },
			} {
				err := open(NewSQLite(opened, time.Now))
				if what == "check" {
					require.Error(t, err)
				} else {
					require.ErrorContains(t, err, path+"-wal exists without its ledger file", what)
				}
				kept, err := os.ReadFile(path + "-wal")
				require.NoError(t, err, what)
				require.Equal(t, log, kept, what)
			}

			require.NoError(t, os.Rename(path+"-wal", old+"-wal"))
			require.NoError(t, openAndClose(opened), "both were put away")
			requireSound(t, sqliteTests, old, acknowledged)
		})
	}
}

func TestALedgerThatWasPutBackBesideItsLogHoldsEverything(t *testing.T) {
	t.Parallel()
	path, acknowledged := killed(t)
	require.NoError(t, os.Rename(path, path+".old"))
	require.Error(t, openAndClose(path))
	require.NoError(t, os.Rename(path+".old", path))
	requireSound(t, sqliteTests, path, acknowledged)
}

func TestRestoreFindsTheLogBesideTheTargetOfASymbolicLink(t *testing.T) {
	t.Parallel()
	path, acknowledged := killed(t)
	link := filepath.Join(t.TempDir(), "monday.db")
	require.NoError(t, os.Symlink(path, link))
	restored := sqliteTests.empty(t)
	rows := must(restored.Restore(t.Context(), link))(t)
	require.GreaterOrEqual(t, rows["receipts"], int64(acknowledged))
}
