package ledger

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// expire makes the next change compare the file again.
func (p *presence) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.compared = time.Time{}
}

// losses are what can happen to the file of an open ledger.
var losses = map[string]func(t *testing.T, path string){
	"deleted":               func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
	"deleted with its -wal": removeAll,
	"replaced by an empty one": func(t *testing.T, path string) {
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	},
	"replaced by another ledger": func(t *testing.T, path string) {
		other := filepath.Join(filepath.Dir(path), "other.db")
		require.NoError(t, openAndClose(other))
		require.NoError(t, os.Rename(other, path))
	},
	"folder renamed": func(t *testing.T, path string) {
		require.NoError(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+".old"))
	},
}

func removeAll(t *testing.T, path string) {
	files := must(filepath.Glob(path + "*"))(t)
	for _, file := range files {
		require.NoError(t, os.Remove(file))
	}
}

func TestChangesAreRefusedAndPaymentsSavedWhenTheFileIsLost(t *testing.T) {
	t.Parallel()
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "folder", "ledger.db")
			l, _ := sqliteTests.ledgerAt(t, path)
			var log strings.Builder
			l.Logger = slog.New(slog.NewJSONHandler(&log, nil))
			mustRecord(t, l, chainObservation("0xa", StatusConfirmed))
			must(l.db.write.Exec("PRAGMA wal_checkpoint(TRUNCATE)"))(t)
			mustRecord(t, l, chainObservation("0xb", StatusConfirmed)) // is in the -wal alone
			lose(t, path)
			l.db.present.expire()

			for range 2 {
				_, err := l.Record(t.Context(), nil, chainObservation("0xc", StatusConfirmed))
				require.ErrorIs(t, err, ErrLost)
			}
			saved := must(filepath.Glob(path + ".rescued-*"))(t)
			require.Len(t, saved, 1)
			err := l.CheckWritable(t.Context())
			require.ErrorIs(t, err, ErrLost)
			require.ErrorContains(t, err, saved[0])
			require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
			require.Contains(t, log.String(), saved[0])
			info := must(os.Stat(saved[0]))(t)
			require.Equal(t, os.FileMode(0o600), info.Mode())

			// No connection makes a file, or opens the other one.
			l.db.read.SetMaxIdleConns(0)
			before, statErr := os.Stat(path)
			require.ErrorIs(t, errorOf(l.Receipts(t.Context(), testOffer, 0, 10)), ErrLost)
			after, err := os.Stat(path)
			require.Equal(t, os.IsNotExist(statErr), os.IsNotExist(err))
			if err == nil {
				require.Equal(t, before.Size(), after.Size())
			}

			require.ErrorIs(t, l.Close(), ErrLost)
			rescued, _ := sqliteTests.ledgerAt(t, saved[0])
			receipts := must(rescued.Receipts(t.Context(), testOffer, 0, 10))(t)
			require.Len(t, receipts, 2)
			require.NoError(t, rescued.Check(t.Context()))
		})
	}
}

func TestPaymentsAreSavedWhenALedgerClosesWhoseFileIsLost(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, _ := sqliteTests.ledgerAt(t, path)
	mustRecord(t, l, chainObservation("0xa", StatusConfirmed))
	removeAll(t, path)
	require.ErrorIs(t, l.Close(), ErrLost)
	saved := must(filepath.Glob(path + ".rescued-*"))(t)
	require.Len(t, saved, 1)
	rescued, _ := sqliteTests.ledgerAt(t, saved[0])
	receipts := must(rescued.Receipts(t.Context(), testOffer, 0, 10))(t)
	require.Len(t, receipts, 1)
}

func TestALostLedgerThatCannotBeSavedSaysSo(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "folder")
	path := filepath.Join(folder, "ledger.db")
	l, _ := sqliteTests.ledgerAt(t, path)
	var log strings.Builder
	l.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	require.NoError(t, os.RemoveAll(folder))
	require.NoError(t, os.Symlink(folder+".gone", folder)) // no folder can be made here
	l.db.present.expire()
	err := l.CheckWritable(t.Context())
	require.ErrorIs(t, err, ErrLost)
	require.ErrorContains(t, err, "could not be saved")
	require.Contains(t, log.String(), "could not be saved")
}

func TestAFileThatStaysIsNeverLost(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, _ := sqliteTests.ledgerAt(t, path)
	backup := func() {
		rows := must(NewSQLite(path, time.Now).Backup(t.Context(), filepath.Join(t.TempDir(), "backup.db")))(t)
		require.NotZero(t, rows["receipts"])
	}
	checkpoint := func() {
		must(l.db.write.Exec("PRAGMA wal_checkpoint(TRUNCATE)"))(t)
	}
	mustRecord(t, l, chainObservation("0xa", StatusConfirmed))
	for i, do := range []func(){func() {}, backup, checkpoint, func() { child(t, "open", path) }} {
		do()
		l.db.present.expire()
		mustRecord(t, l, chainObservation("0xb"+string(rune('0'+i)), StatusConfirmed))
	}
	require.NoError(t, l.Close())
	saved := must(filepath.Glob(path + ".rescued-*"))(t)
	require.Empty(t, saved)
}
