package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// instances opens handles to one new database, as that many processes would.
func instances(t *testing.T, n int) []*Ledger {
	t.Helper()
	return instancesAt(t, postgresTests.create(t), n)
}

func instancesAt(t *testing.T, dsn string, n int) (all []*Ledger) {
	t.Helper()
	for range n {
		l, _ := postgresTests.ledgerAt(t, dsn)
		all = append(all, l)
	}
	return all
}

func TestPostgresInstancesGiveOneIntentOneWinner(t *testing.T) {
	t.Parallel()
	all := instances(t, 4)
	copies := cases.Of(50, 200, 1_000)
	var won, known atomic.Int64
	var group sync.WaitGroup
	for n := range copies {
		group.Go(func() {
			intent := testIntent("0xaa", "0x01")
			intent.Owner = fmt.Sprint(n)
			err := all[n%4].InsertIntent(t.Context(), intent)
			var exists *IntentExistsError
			switch {
			case err == nil:
				won.Add(1)
			case errors.As(err, &exists) && exists.Existing.Fingerprint == intent.Fingerprint:
				known.Add(1)
			default:
				assert.NoError(t, err)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 1, won.Load())
	require.EqualValues(t, copies-1, known.Load())
	requireConsistent(t, all[0])
}

func TestPostgresInstancesSettleOneAuthorizationOfAPayerAtATime(t *testing.T) {
	t.Parallel()
	all := instances(t, 4)
	for payer := range cases.Of(10, 30, 300) {
		var won, held atomic.Int64
		var group sync.WaitGroup
		for n, l := range all {
			group.Go(func() {
				err := l.InsertIntent(t.Context(), testIntent(fmt.Sprintf("0x%d", payer), fmt.Sprintf("0x%d", n)))
				var conflict *ConflictError
				switch {
				case err == nil:
					won.Add(1)
				case errors.As(err, &conflict) && conflict.Other.State == IntentSettling:
					held.Add(1)
				default:
					assert.NoError(t, err)
				}
			})
		}
		group.Wait()
		require.EqualValues(t, 1, won.Load())
		require.EqualValues(t, 3, held.Load())
	}
	requireConsistent(t, all[0])
}

func TestPostgresInstancesRecordAObservationOnce(t *testing.T) {
	t.Parallel()
	all := instances(t, 4)
	for n := range 20 {
		s := chainObservation(fmt.Sprintf("0x%d", n), StatusSeen)
		var group sync.WaitGroup
		for _, l := range all {
			group.Go(func() {
				receipts, err := l.Record(t.Context(), nil, s)
				assert.NoError(t, err)
				assert.Len(t, receipts, 1)
			})
		}
		group.Wait()
		require.Len(t, statuses(t, all[0]), n+1)
	}
	requireConsistent(t, all[0])
}

// TestPostgresReaderOfTheHistoryMissesNothing delays commits after their
// transition has its number: without an order of commits, later numbers would
// become visible first, and a reader would pass over the delayed ones.
func TestPostgresReaderOfTheHistoryMissesNothing(t *testing.T) {
	t.Parallel()
	all := instances(t, 5)
	_, err := all[0].db.write.Exec(`
		CREATE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN PERFORM pg_sleep(random() * 0.004); RETURN NEW; END $$;
		CREATE TRIGGER delay AFTER INSERT ON transitions FOR EACH ROW EXECUTE FUNCTION delay()`)
	require.NoError(t, err)
	const each = 30
	var writers sync.WaitGroup
	for n, l := range all[1:] {
		writers.Go(func() {
			for i := range each {
				_, err := l.Record(t.Context(), nil, chainObservation(fmt.Sprintf("0x%d-%d", n, i), StatusSeen))
				assert.NoError(t, err)
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()

	read, last, ended := map[string]bool{}, int64(0), false
	for !ended {
		select {
		case <-done:
			ended = true // and read what is left
		default:
		}
		page := must(all[0].Transitions(t.Context(), testOffer, last, 1000))(t)
		for _, tr := range page {
			require.False(t, read[tr.ExternalID])
			read[tr.ExternalID], last = true, tr.Seq
		}
	}
	require.Len(t, read, 4*each)
}

func TestPostgresInstancesMigrateTogether(t *testing.T) {
	t.Parallel()
	for range cases.Of(2, 5, 50) {
		dsn := postgresTests.vacant(t)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				l := postgresTests.handle(t, dsn, time.Now)
				assert.NoError(t, l.Open(t.Context()))
				assert.NoError(t, l.Close())
			})
		}
		group.Wait()
		l, _ := postgresTests.ledgerAt(t, dsn)
		files := must(fs.Glob(l.dialect.migrations(), "*.sql"))(t)
		require.Equal(t, len(files), postgresTests.schemaVersion(t, l))
	}
}

// TestPostgresInstancesKeepRandomHistoriesConsistent lets all of them act on
// the same few payers, authorizations and transactions, under every isolation
// that a database may have as its default.
func TestPostgresInstancesKeepRandomHistoriesConsistent(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"read committed", "serializable"} {
		dsn := withParameter(t, postgresTests.create(t), "default_transaction_isolation", isolation)
		all := instancesAt(t, dsn, 4)
		var group sync.WaitGroup
		for n, l := range all {
			group.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(n), 5))
				for range cases.Of(60, 150, 1_500) {
					randomStep(t, l, rng)
				}
			})
		}
		group.Wait()
		requireConsistent(t, all[0])
		requireJoined(t, all[0])
		require.Greater(t, len(statuses(t, all[0])), 25)
	}
}
