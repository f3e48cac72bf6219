package ledger

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

func ptr[T any](v T) *T { return &v }

// must fails the test if a call fails, and returns its value: must(call())(t).
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// What the tests record.
var chainObservation, cardObservation, returned = observations.Chain, observations.Card, observations.Returned

func testIntent(from, nonce string) Intent {
	return Intent{
		IntentKey: IntentKey{Network: "eip155:84532", Asset: "0xtoken", From: from, Nonce: nonce},
		Offer:     testOffer, Account: testAccount, Amount: 42_000_000, USDCents: ptr(int64(4200)),
		Fingerprint: "f-" + nonce, Version: 2, Payload: []byte(`{"p":1}`), Requirement: []byte(`{"r":1}`),
		ValidBefore: 5_000, Progress: Progress{Facilitator: "main", Owner: "attempt-1", LeaseUntil: 1_060},
	}
}

// find is must for a call that also reports whether there is a value.
func find[T any](value T, found bool, err error) func(t testing.TB) (T, bool) {
	return func(t testing.TB) (T, bool) {
		t.Helper()
		require.NoError(t, err)
		return value, found
	}
}

func mustRecord(t testing.TB, l *Ledger, s Observation) Receipt {
	t.Helper()
	receipts := must(l.Record(t.Context(), nil, s))(t)
	require.Len(t, receipts, 1)
	return receipts[0]
}

func mustIntent(t testing.TB, l *Ledger, key IntentKey) Intent {
	t.Helper()
	i, found := find(l.Intent(t.Context(), key))(t)
	require.True(t, found)
	return i
}

// requireConsistent compares what is kept in step with what a scan gives.
func requireConsistent(t testing.TB, l *Ledger) {
	t.Helper()
	require.NoError(t, l.Check(context.Background()))
}

// statuses lists an offer's transitions as "external id version from>to".
func statuses(t testing.TB, l *Ledger) (lines []string) {
	t.Helper()
	transitions := must(l.Transitions(t.Context(), testOffer, 0, 1000))(t)
	for _, tr := range transitions {
		lines = append(lines, fmt.Sprintf("%s %d %s>%s", tr.ExternalID, tr.Version, tr.From, tr.To))
	}
	return lines
}

// errorOf is the error of a call.
func errorOf[T any](_ T, err error) error { return err }

// testDialect is a database that the same tests run on.
type testDialect struct {
	name string
	// create returns where a new database without rows is: a copy, which is made faster than by migrations.
	create func(t testing.TB) (where string)
	// handle returns an unopened handle to it.
	handle func(t testing.TB, where string, now func() time.Time) *Ledger
	// fault is a statement after which writes like "INSERT ON receipts" fail.
	fault func(write string) string
	// heal is the statement that ends it.
	heal string
}

var sqliteTests = testDialect{
	name: "sqlite",
	create: func(t testing.TB) string {
		empty := must(sqliteTemplate())(t)
		path := filepath.Join(t.TempDir(), "ledger.db")
		require.NoError(t, os.WriteFile(path, empty, 0o600))
		return path
	},
	handle: func(_ testing.TB, where string, now func() time.Time) *Ledger { return NewSQLite(where, now) },
	fault: func(write string) string {
		return "CREATE TRIGGER fault AFTER " + write + " BEGIN SELECT RAISE(FAIL, 'injected'); END"
	},
	heal: "DROP TRIGGER fault",
}

var postgresTests = testDialect{
	name: "postgres",
	create: func(t testing.TB) string {
		server := postgres.Shared(t)
		postgresTemplate.once.Do(func() { postgresTemplate.url = makePostgresTemplate(t, server) })
		name := fmt.Sprint("copy_", postgresTemplate.copies.Add(1))
		server.Exec(t, "CREATE DATABASE "+name+" TEMPLATE template")
		t.Cleanup(func() { server.Exec(t, "DROP DATABASE "+name+" WITH (FORCE)") })
		dsn := postgresTemplate.url
		dsn.Path = "/" + name
		return dsn.String()
	},
	handle: func(t testing.TB, where string, now func() time.Time) *Ledger {
		return must(NewPostgres(where, now))(t)
	},
	fault: func(write string) string {
		return `CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'injected'; END $$;
			CREATE TRIGGER fault AFTER ` + write + ` FOR EACH ROW EXECUTE FUNCTION fault()`
	},
	heal: "DROP FUNCTION fault CASCADE",
}

var sqliteTemplate = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "ledger")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "ledger.db")
	if err := openAndClose(path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

var postgresTemplate struct {
	once   sync.Once
	url    url.URL
	copies atomic.Int64
}

// makePostgresTemplate makes the database "template" of an empty ledger.
func makePostgresTemplate(t testing.TB, server *postgres.Server) url.URL {
	server.Exec(t, "CREATE DATABASE template")
	dsn := must(url.Parse(server.DSN(t)))(t)
	query := dsn.Query()
	query.Del("search_path")
	dsn.Path, dsn.RawQuery = "/template", query.Encode()
	l := must(NewPostgres(dsn.String(), time.Now))(t)
	require.NoError(t, l.Open(t.Context()))
	require.NoError(t, l.Close())
	return *dsn
}

// eachDialect runs a test on every kind of database, in parallel with the other tests that
// do: what takes time is to wait for the disk and the server.
func eachDialect(t *testing.T, test func(t *testing.T, d testDialect)) {
	t.Helper()
	t.Parallel()
	for _, d := range []testDialect{sqliteTests, postgresTests} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

// eachLedger is eachDialect with an open ledger, see testDialect.ledger.
func eachLedger(t *testing.T, test func(t *testing.T, l *Ledger, clock *testClock)) {
	t.Helper()
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, clock := d.ledger(t)
		test(t, l, clock)
	})
}

// sqliteOnly is eachDialect for a rule that has no SQL of its own.
func sqliteOnly(t *testing.T, test func(t *testing.T, d testDialect)) {
	t.Helper()
	t.Parallel()
	test(t, sqliteTests)
}

// onSQLite is eachLedger for a rule that has no SQL of its own.
func onSQLite(t *testing.T, test func(t *testing.T, l *Ledger, clock *testClock)) {
	t.Helper()
	t.Parallel()
	l, clock := sqliteTests.ledger(t)
	test(t, l, clock)
}

// ledger opens a new database with the two accounts that tests pay to.
func (td testDialect) ledger(t testing.TB) (*Ledger, *testClock) {
	t.Helper()
	return td.ledgerAt(t, td.create(t))
}

func (td testDialect) ledgerAt(t testing.TB, where string) (*Ledger, *testClock) {
	t.Helper()
	clock := &testClock{unix: 1_000}
	l := td.handle(t, where, clock.now)
	require.NoError(t, l.Open(t.Context()))
	t.Cleanup(func() { _ = l.Close() })
	require.NoError(t, l.Register(t.Context(),
		Account{Offer: testOffer, ID: testAccount, Rail: "usdc", Testnet: true},
		Account{Offer: testOffer, ID: cardAccount, Rail: "card"}))
	return l, clock
}

// vacant returns where a ledger can be made.
func (td testDialect) vacant(t testing.TB) string {
	if td.name == sqliteTests.name {
		return filepath.Join(t.TempDir(), "ledger.db")
	}
	return postgres.Shared(t).DSN(t)
}

// schemaVersion reads the number of the last migration as stored.
func (td testDialect) schemaVersion(t testing.TB, l *Ledger) (version int) {
	t.Helper()
	query := "SELECT version FROM pay_offer_schema"
	if td.name == sqliteTests.name {
		query = "PRAGMA user_version"
	}
	require.NoError(t, l.db.write.QueryRow(query).Scan(&version))
	return version
}

// makeNewer gives the schema the version of a later program.
func (td testDialect) makeNewer(t testing.TB, l *Ledger) {
	t.Helper()
	statement := "UPDATE pay_offer_schema SET version = 99"
	if td.name == sqliteTests.name {
		statement = "PRAGMA user_version = 99"
	}
	must(l.db.write.Exec(statement))(t)
}
