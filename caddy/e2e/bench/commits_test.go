package bench

import (
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// paymentsOfCommits are those of one round.
const paymentsOfCommits = 40

// measureCommits compares the time of one paid request, without that of the facilitator, with two bare durable commits of one
// row each, with the settings of the ledger.
func measureCommits(b *testing.B, t *table) {
	database := postgres.Start(b)
	for _, kind := range []struct{ name, ledger, driver, dsn string }{
		{"SQLite", "sqlite {DIR}/ledger.db", "sqlite", "file:" + filepath.Join(b.TempDir(), "bare.db") +
			"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=fullfsync(1)&_pragma=foreign_keys(1)"},
		{"PostgreSQL", "postgres {env.LEDGER_DSN}", "pgx", database.DSN(b)},
	} {
		f := startFacilitator(b, 0)
		s := seller{side: startOffer(b, kind.name, kind.ledger, f.url, 1, "LEDGER_DSN="+database.DSN(b))}
		s.demand = demanded(b, s.side, request{method: http.MethodPost, path: offer.PathSponsor})
		commit := bareCommits(b, kind.driver, kind.dsn)
		times := takeTurns(2, func(i int) float64 {
			if i == 1 {
				return median(paymentsOfCommits, commit)
			}
			key, n := newBuyers(b, 1)[0], 0
			sent := make([][]byte, paymentsOfCommits)
			for i := range sent {
				sent[i] = s.demand.signed(b, key, s.host)
			}
			return median(len(sent), func() time.Duration {
				facilitators, began := f.spent.Load(), time.Now()
				require.NoError(b, requirePaid(s.lanes[0].send(sent[n])))
				n++
				return time.Since(began) - time.Duration(f.spent.Load()-facilitators)
			})
		})
		t.add("paid, own time, "+kind.name+": ÷ two bare commits", ratio(times[0], times[1]), "≤ 1.3", microseconds(times[0], times[1]))
	}
}

// median is that of so many times, in microseconds.
func median(count int, timed func() time.Duration) float64 {
	var all []float64
	for range count {
		all = append(all, float64(timed().Nanoseconds())/1000)
	}
	return spreadOf(all).median
}

// bareCommits makes two durable commits of one small row each, and says how long they took.
func bareCommits(b *testing.B, driver, dsn string) func() time.Duration {
	db, err := sql.Open(driver, dsn)
	require.NoError(b, err)
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	_, err = db.Exec(`CREATE TABLE bare (id INTEGER PRIMARY KEY, payload TEXT)`)
	require.NoError(b, err)
	n := 0
	return func() time.Duration {
		began := time.Now()
		for range 2 {
			n++
			tx, err := db.Begin()
			require.NoError(b, err)
			_, err = tx.Exec(`INSERT INTO bare (id, payload) VALUES ($1, $2)`, n, fmt.Sprint("payload ", n))
			require.NoError(b, err)
			require.NoError(b, tx.Commit())
		}
		return time.Since(began)
	}
}
