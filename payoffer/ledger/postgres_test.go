package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
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

func TestPostgresOneOpenIntentPerPayer(t *testing.T) {
	t.Parallel()
	all, conflicts := instances(t, 4), errors.New("another one is open")
	for payer := range cases.Of(10, 30, 300) {
		require.Equal(t, map[error]int{nil: 1, conflicts: 3}, atOnce(all, func(n int, l *Ledger) error {
			err := l.InsertIntent(t.Context(), testIntent(fmt.Sprintf("0x%d", payer), fmt.Sprintf("0x%d", n)))
			if conflict := new(ConflictError); errors.As(err, &conflict) && conflict.Other.State == IntentSettling {
				return conflicts
			}
			return err
		}))
	}
	requireConsistent(t, all[0])
}

// TestPostgresTransitionReaderMissesNothing delays commits after their
// transition has its number: without an order of commits, later numbers would
// become visible first, and a reader would pass over the delayed ones.
func TestPostgresTransitionReaderMissesNothing(t *testing.T) {
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

func TestPostgresConcurrentMigrations(t *testing.T) {
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
		files := must(fs.Glob(schemas, l.dialect.schema()+"/*.sql"))(t)
		require.Equal(t, len(files), postgresTests.schemaVersion(t, l))
	}
}

// TestPostgresRandomHistoriesStayConsistent lets all of them act on
// the same few payers, authorizations and transactions, under every isolation
// that a database may have as its default.
func TestPostgresRandomHistoriesStayConsistent(t *testing.T) {
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

// withParameter adds a parameter to a URL.
func withParameter(t *testing.T, dsn, name, value string) string {
	t.Helper()
	u := must(url.Parse(dsn))(t)
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // as libpq reads it
	return u.String()
}

func openPostgres(t *testing.T, dsn string) error {
	t.Helper()
	l := postgresTests.handle(t, dsn, time.Now)
	err := l.Open(t.Context())
	require.NoError(t, l.Close())
	return err
}

func TestPostgresNeedsDurableCommits(t *testing.T) {
	t.Parallel()
	dsn := postgresTests.create(t)
	for value, refused := range map[string]bool{
		"off": true, "local": true, "remote_write": true, "on": false, "remote_apply": false,
	} {
		t.Run(value, func(t *testing.T) {
			err := openPostgres(t, withParameter(t, dsn, "synchronous_commit", value))
			if refused {
				require.ErrorContains(t, err, `synchronous_commit is "`+value+`"`)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestPostgresSettingsAndRestart(t *testing.T) {
	t.Parallel()
	server := postgres.Start(t) // of its own
	t.Run("settings are seen", func(t *testing.T) { settingsOfTheRoleAreSeen(t, server) })
	t.Run("restart", func(t *testing.T) { restartLosesNoCommitAndNoLedger(t, server) })
}

// settingsOfTheRoleAreSeen changes a role while a ledger is open.
func settingsOfTheRoleAreSeen(t *testing.T, server *postgres.Server) {
	t.Helper()
	dsn := server.DSN(t)
	l, _ := postgresTests.ledgerAt(t, dsn)
	for setting, problem := range map[string]string{
		"ALTER ROLE postgres SET synchronous_commit = off":                "synchronous_commit",
		"ALTER DATABASE postgres SET synchronous_commit = local":          "synchronous_commit",
		"ALTER DATABASE postgres SET default_transaction_read_only TO on": "is read-only",
		"ALTER SYSTEM SET synchronous_commit = off":                       "synchronous_commit",
		"ALTER SYSTEM SET fsync = off":                                    "fsync",
	} {
		server.Exec(t, setting)
		if strings.Contains(setting, "SYSTEM") {
			server.Exec(t, "SELECT pg_reload_conf()")
			server.Stop(t)
			server.Start(t)
		}
		require.ErrorContains(t, openPostgres(t, dsn), problem, setting)
		if strings.Contains(setting, "SYSTEM") {
			_, err := l.Totals(t.Context(), testOffer)
			require.Error(t, err, "a new connection of an open ledger is looked at as well")
		}
		server.Exec(t, "ALTER ROLE postgres RESET ALL")
		server.Exec(t, "ALTER DATABASE postgres RESET ALL")
		server.Exec(t, "ALTER SYSTEM RESET ALL")
		server.Exec(t, "SELECT pg_reload_conf()")
	}
	require.NoError(t, openPostgres(t, dsn))
}

func restartLosesNoCommitAndNoLedger(t *testing.T, server *postgres.Server) {
	t.Helper()
	l, _ := postgresTests.ledgerAt(t, server.DSN(t))
	for n := range 5 {
		require.NoError(t, pay(l, n))
	}
	server.Stop(t)
	for range 3 {
		require.True(t, IsUnreachable(pay(l, 5)))
		_, err := l.Totals(t.Context(), testOffer)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "PGSQL", "the socket's path")
	}
	server.Start(t)
	require.Eventually(t, func() bool { return pay(l, 5) == nil }, 30*time.Second, time.Millisecond)
	receipts := must(l.Receipts(t.Context(), testOffer, 0, 10))(t)
	require.Len(t, receipts, 6)
	requireConsistent(t, l)
}

func TestPostgresErrorsHideDSN(t *testing.T) {
	t.Parallel()
	dsn := must(url.Parse(postgresTests.create(t)))(t)
	socket := dsn.Query().Get("host")
	closing, err := net.Listen("tcp", "127.0.0.1:0") // as a proxy does without a server behind it
	require.NoError(t, err)
	defer closing.Close()
	go func() {
		for {
			conn, err := closing.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	for name, c := range map[string]struct {
		dsn, want string
		away      bool // it may be there later
	}{
		"no server listens": {"postgres://hiddenrole:hiddenword@127.0.0.1:1/hiddenbase", "connection refused", true},
		"a proxy closes":    {"postgres://hiddenrole:hiddenword@" + closing.Addr().String() + "/hiddenbase?sslmode=disable", "connecting: the server", true},
		"no socket":         {"host=/hiddenfolder user=hiddenrole password=hiddenword dbname=hiddenbase", "no such file", true},
		"unknown name":      {"postgres://hiddenrole:hiddenword@hiddenhost.invalid/hiddenbase", "cannot be resolved", true},
		"unknown role":      {"postgres://hiddenrole:hiddenword@/postgres?host=" + socket, "role does not exist", false},
		"unknown database":  {"postgres://postgres:hiddenword@/hiddenbase?host=" + socket, "database does not exist", false},
		"missing schema":    {"postgres://postgres:hiddenword@/postgres?search_path=hiddenschema&host=" + socket, "no schema", false},
		"unknown setting":   {"postgres://postgres:hiddenword@/postgres?hiddenname=1&host=" + socket, "SQLSTATE", false},
		"broken URL":        {"postgres://hiddenrole:hidden%word@hiddenhost/hiddenbase", "cannot be read", false},
		"broken port":       {"host=hiddenhost port=hiddenport password='hiddenword", "cannot be read", false},
		"broken sslmode":    {"postgres://hiddenrole:hiddenword@hiddenhost/hiddenbase?sslmode=hiddenmode", "cannot be read", false},
		"missing file":      {"postgres://hiddenrole@hiddenhost/?sslmode=verify-full&sslrootcert=/hiddenfile", "cannot be read", false},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := NewPostgres(c.dsn, time.Now)
			if err == nil {
				err = l.Open(t.Context())
			}
			require.ErrorContains(t, err, c.want)
			require.Equal(t, c.away, IsUnreachable(err), err)
			for _, secret := range []string{"hidden", "127.0.0.1", socket} {
				require.NotContains(t, err.Error(), secret)
			}
		})
	}
}

func TestPostgresRefusesForeignTables(t *testing.T) {
	t.Parallel()
	server := postgres.Shared(t)
	dsn := server.DSN(t)
	u := must(url.Parse(dsn))(t)
	server.Exec(t, "CREATE TABLE "+u.Query().Get("search_path")+".totals (mine INTEGER)")
	require.ErrorContains(t, openPostgres(t, dsn), "schema of its own")
	require.ErrorContains(t, openPostgres(t, dsn), "schema of its own", "nothing of the first attempt is left")
}

func TestPostgresLostConnectionRollsBack(t *testing.T) {
	t.Parallel()
	l, _ := postgresTests.ledger(t)
	err := l.write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		if err := accountTable.upsert(ctx, tx, `offer, account`, Account{Offer: testOffer, ID: "late", Rail: "btc"}); err != nil {
			return err
		}
		pid, _, err := atMostOne(query(ctx, tx, scanValue[int], "SELECT pg_backend_pid()"))
		if err != nil {
			return err
		}
		must(l.db.read.Exec("SELECT pg_terminate_backend($1, 10000)", pid))(t)
		_, err = execute(ctx, tx, "", "SELECT 1")
		return err
	})
	require.Error(t, err)
	_, err = l.SetOrigin(t.Context(), testOffer, "late", "1")
	require.ErrorIs(t, err, errNotRegistered)
}
