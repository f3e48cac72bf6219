package ledger

import (
	"database/sql"
	"errors"
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

func TestLostFileRescuesPayments(t *testing.T) {
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

			require.ErrorIs(t, l.Lost(), ErrLost)
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

func TestCloseRescuesLostFile(t *testing.T) {
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

func TestLostFileRescueFailureIsReported(t *testing.T) {
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

func TestExistingFileIsNotReportedLost(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, _ := sqliteTests.ledgerAt(t, path)
	backup := func() {
		copied := must(NewSQLite(path, time.Now).Backup(t.Context(), filepath.Join(t.TempDir(), "backup.db")))(t)
		require.NotZero(t, copied.Rows["receipts"])
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

func TestOpenAsItIsCreatesNothing(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		where := d.vacant(t)
		for range 2 {
			err := d.handle(t, where, time.Now).OpenExisting(t.Context())
			require.ErrorContains(t, err, "opening the ledger ")
			if d.name == sqliteTests.name {
				require.ErrorIs(t, err, os.ErrNotExist)
				require.ErrorContains(t, err, where)
				left := must(os.ReadDir(filepath.Dir(where)))(t)
				require.Empty(t, left)
			} else {
				require.ErrorContains(t, err, "there is no ledger")
			}
		}
	})
}

// cut ends the sessions that say that a ledger on PostgreSQL is in use, as a server does that gives way to its standby.
func cut(t *testing.T, dsn string) {
	t.Helper()
	db := must(sql.Open("pgx", dsn))(t)
	defer db.Close()
	var all bool
	require.NoError(t, db.QueryRow(`
		SELECT coalesce(bool_and(pg_terminate_backend(pid, 10000)), true) FROM pg_locks
		WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND locktype = 'advisory' AND classid = `+sessionSpace+`::oid
			AND objid = (hashtext('in use: ' || quote_ident(current_schema()))::bigint & 4294967295)::oid`).Scan(&all))
	require.True(t, all)
}

// An instance that was cut off meanwhile is refused, too: a payment in the old ledger would never be found.
func TestMovedLedgerRefusesWrites(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		where := d.create(t)
		instance, _ := d.ledgerAt(t, where)
		mustRecord(t, instance, chainObservation("0xa", StatusConfirmed))
		if d.name == sqliteTests.name {
			require.NoError(t, instance.Close())
		}
		mover := d.handle(t, where, time.Now)
		err := mover.OpenExisting(t.Context())
		for d.name == postgresTests.name && errors.Is(err, errInstances) { // the instance may connect again
			cut(t, where)
			err = mover.OpenExisting(t.Context())
		}
		require.NoError(t, err)
		require.NoError(t, mover.Retire(t.Context()))
		require.NoError(t, mover.Close())

		if d.name == postgresTests.name {
			for err := errors.New("none yet"); !errors.Is(err, errMoved); { // its sessions are lost, and that of the mover may not be gone
				err = errorOf(instance.Record(t.Context(), nil, chainObservation("0xb", StatusConfirmed)))
				require.Error(t, err)
			}
		}
		again := d.handle(t, where, time.Now)
		require.ErrorIs(t, again.Open(t.Context()), errMoved)
		_, err = again.Backup(t.Context(), filepath.Join(t.TempDir(), "copy.db"))
		require.ErrorIs(t, err, errMoved)
	})
}

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

func TestOpenKeepsOrphanedWAL(t *testing.T) {
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
				"restore": func(l *Ledger) error { return l.OpenExclusive(t.Context()) },
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

func TestRestoreReadsWALThroughSymlink(t *testing.T) {
	t.Parallel()
	path, acknowledged := killed(t)
	link := filepath.Join(t.TempDir(), "monday.db")
	require.NoError(t, os.Symlink(path, link))
	restored := sqliteTests.empty(t)
	copied := must(restored.Restore(t.Context(), link))(t)
	require.GreaterOrEqual(t, copied.Rows["receipts"], int64(acknowledged))
}
