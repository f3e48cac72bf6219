package ledger

import (
	"context"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

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

func TestPostgresWithoutDurableCommitsIsRefused(t *testing.T) {
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

func TestPostgresServerThatChangesOrEnds(t *testing.T) {
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
		require.True(t, Away(pay(l, 5)))
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

func TestPostgresErrorsKeepTheDSN(t *testing.T) {
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
		"nobody listens":   {"postgres://hiddenrole:hiddenword@127.0.0.1:1/hiddenbase", "connection refused", true},
		"a proxy closes":   {"postgres://hiddenrole:hiddenword@" + closing.Addr().String() + "/hiddenbase?sslmode=disable", "connecting: the server", true},
		"no socket":        {"host=/hiddenfolder user=hiddenrole password=hiddenword dbname=hiddenbase", "no such file", true},
		"unknown name":     {"postgres://hiddenrole:hiddenword@hiddenhost.invalid/hiddenbase", "cannot be resolved", true},
		"unknown role":     {"postgres://hiddenrole:hiddenword@/postgres?host=" + socket, "role does not exist", false},
		"unknown database": {"postgres://postgres:hiddenword@/hiddenbase?host=" + socket, "database does not exist", false},
		"missing schema":   {"postgres://postgres:hiddenword@/postgres?search_path=hiddenschema&host=" + socket, "no schema", false},
		"unknown setting":  {"postgres://postgres:hiddenword@/postgres?hiddenname=1&host=" + socket, "SQLSTATE", false},
		"broken URL":       {"postgres://hiddenrole:hidden%word@hiddenhost/hiddenbase", "cannot be read", false},
		"broken port":      {"host=hiddenhost port=hiddenport password='hiddenword", "cannot be read", false},
		"broken sslmode":   {"postgres://hiddenrole:hiddenword@hiddenhost/hiddenbase?sslmode=hiddenmode", "cannot be read", false},
		"missing file":     {"postgres://hiddenrole@hiddenhost/?sslmode=verify-full&sslrootcert=/hiddenfile", "cannot be read", false},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := NewPostgres(c.dsn, time.Now)
			if err == nil {
				err = l.Open(t.Context())
			}
			require.ErrorContains(t, err, c.want)
			require.Equal(t, c.away, Away(err), err)
			for _, secret := range []string{"hidden", "127.0.0.1", socket} {
				require.NotContains(t, err.Error(), secret)
			}
		})
	}
}

func TestPostgresTablesOfAnotherProgramAreLeftAlone(t *testing.T) {
	t.Parallel()
	server := postgres.Shared(t)
	dsn := server.DSN(t)
	u := must(url.Parse(dsn))(t)
	server.Exec(t, "CREATE TABLE "+u.Query().Get("search_path")+".totals (mine INTEGER)")
	require.ErrorContains(t, openPostgres(t, dsn), "schema of its own")
	require.ErrorContains(t, openPostgres(t, dsn), "schema of its own", "nothing of the first attempt is left")
}

func TestPostgresLostConnectionUndoesTheTransactionAndHeals(t *testing.T) {
	t.Parallel()
	l, _ := postgresTests.ledger(t)
	err := l.transact(t.Context(), func(ctx context.Context, tx *transaction) error {
		if err := storeAccounts(ctx, tx, map[string]Account{"late": {Offer: testOffer, ID: "late", Rail: "btc"}}); err != nil {
			return err
		}
		pid, _, err := first(queryTx(ctx, tx, scanValue[int], "SELECT pg_backend_pid()"))
		if err != nil {
			return err
		}
		must(l.db.read.Exec("SELECT pg_terminate_backend($1, 10000)", pid))(t)
		_, err = tx.exec(ctx, "", "SELECT 1")
		return err
	})
	require.Error(t, err)
	_, err = l.SetOrigin(t.Context(), testOffer, "late", "1")
	require.ErrorIs(t, err, errNotRegistered)
}
