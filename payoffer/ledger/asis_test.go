package ledger

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALedgerThatIsNotThereIsNotMadeToBeLookedAt(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		where := d.vacant(t)
		for range 2 {
			err := d.handle(t, where, time.Now).OpenAsItIs(t.Context())
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
			AND locktype = 'advisory' AND classid = `+lockSpace+`::oid
			AND objid = (hashtext('in use: ' || quote_ident(current_schema()))::bigint & 4294967295)::oid`).Scan(&all))
	require.True(t, all)
}

// TestALedgerThatWasMovedTakesNothing, also not from an instance that was cut off from it meanwhile: nobody would find
// the payment.
func TestALedgerThatWasMovedTakesNothing(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		where := d.create(t)
		instance, _ := d.ledgerAt(t, where)
		mustRecord(t, instance, chainObservation("0xa", StatusConfirmed))
		if d.name == sqliteTests.name {
			require.NoError(t, instance.Close())
		}
		mover := d.handle(t, where, time.Now)
		err := mover.OpenAsItIs(t.Context())
		for d.name == postgresTests.name && errors.Is(err, errInstances) { // the instance may connect again
			cut(t, where)
			err = mover.OpenAsItIs(t.Context())
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
