package ledger

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNewerSchemaIsRefused(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		where := d.create(t)
		l, _ := d.ledgerAt(t, where)
		d.makeNewer(t, l)
		require.NoError(t, l.Close())

		l = d.handle(t, where, time.Now)
		err := l.Open(t.Context())
		require.ErrorIs(t, err, errNewerSchema)
		require.ErrorContains(t, err, "99")
		// The refusal leaves nothing locked behind.
		require.ErrorIs(t, l.Open(t.Context()), errNewerSchema)
	})
}

// TestPostgresNewerSchemaThatOnlyAddedIsWritten: an instance of the version before starts again beside newer ones. A copy
// would leave out what was added, and is refused.
func TestPostgresNewerSchemaThatOnlyAddedIsWritten(t *testing.T) {
	t.Parallel()
	dsn := postgresTests.create(t)
	l, _ := postgresTests.ledgerAt(t, dsn)
	_, err := l.db.write.Exec(`ALTER TABLE receipts ADD COLUMN later TEXT NOT NULL DEFAULT ''; UPDATE pay_offer_schema SET version = 99`)
	require.NoError(t, err)
	require.NoError(t, l.Close())

	l, _ = postgresTests.ledgerAt(t, dsn)
	mustRecord(t, l, chainSighting("0xa", StatusConfirmed))
	requireConsistent(t, l)
	require.NoError(t, postgresTests.handle(t, dsn, time.Now).Check(t.Context()), "and is read beside")
	for _, from := range []*Ledger{l, postgresTests.handle(t, dsn, time.Now)} {
		_, err = from.Backup(t.Context(), filepath.Join(t.TempDir(), "copy.db"))
		require.ErrorContains(t, err, "its schema is version 99")
	}
}

// TestPostgresEveryChangeOfAnOlderProgramIsRefused while what it reads is answered, and nothing is kept of the refusal.
func TestPostgresEveryChangeOfAnOlderProgramIsRefused(t *testing.T) {
	t.Parallel()
	for name := range writes(nil) {
		l := preparedLedger(t, postgresTests)
		before := dump(t, l)
		write := writes(l)[name]
		_, err := l.db.write.Exec(`UPDATE pay_offer_schema SET oldest = $1`, l.db.known+1)
		require.NoError(t, err)
		for range poolSize + 1 { // no connection is worn by it
			err := write.call()
			require.ErrorIs(t, err, errNewerSchema, name)
			require.ErrorContains(t, err, "newer version", name)
		}
		require.Equal(t, before, dump(t, l), name)
		_, err = l.db.write.Exec(`UPDATE pay_offer_schema SET oldest = $1`, l.db.known)
		require.NoError(t, err)
		require.NoError(t, write.call(), name)
		require.LessOrEqual(t, l.db.write.Stats().OpenConnections, poolSize)
		require.NoError(t, l.Close())
	}
}

// later is a dialect that has one more migration.
func later(t *testing.T, d dialect, script string) withMigrations {
	t.Helper()
	names, err := fs.Glob(d.migrations(), "*.sql")
	require.NoError(t, err)
	files := fstest.MapFS{}
	for n := range names {
		files[fmt.Sprintf("%04d.sql", n+1)] = &fstest.MapFile{Data: []byte("SELECT broken: applied already")}
	}
	files[fmt.Sprintf("%04d.sql", len(names)+1)] = &fstest.MapFile{Data: []byte(script)}
	return withMigrations{d, files}
}

// TestPostgresNoChangeOfAnOlderProgramFollowsTheMigrationThatEndsIt lets instances record while the migration counts
// what they recorded.
func TestPostgresNoChangeOfAnOlderProgramFollowsTheMigrationThatEndsIt(t *testing.T) {
	t.Parallel()
	for range 5 {
		all := instances(t, 4)
		newest := all[0].db.known + 1
		ending := later(t, all[0].dialect, fmt.Sprintf(`LOCK TABLE pay_offer_schema; UPDATE pay_offer_schema SET oldest = %d;
			CREATE TABLE counted AS SELECT count(*) AS n FROM receipts`, newest))
		var writers sync.WaitGroup
		recorded := make(chan struct{}, 100_000)
		for i, l := range all[1:] {
			for w := range 2 {
				writers.Go(func() {
					for n := 0; ; n++ {
						_, err := l.Record(t.Context(), nil, chainSighting(fmt.Sprint(i, w, n), StatusSeen))
						if err != nil {
							assert.ErrorIs(t, err, errNewerSchema)
							return
						}
						recorded <- struct{}{}
					}
				})
			}
		}
		for range 20 {
			<-recorded
		}
		require.NoError(t, migrateAll(t, ending, all[0].db.write))
		writers.Wait()
		var counted, kept int
		require.NoError(t, all[0].db.read.QueryRow(`SELECT n, (SELECT count(*) FROM receipts) FROM counted`).Scan(&counted, &kept))
		require.Equal(t, counted, kept)
		require.Equal(t, len(recorded)+20, kept)
	}
}

// impatient is a dialect that waits for locks and pauses for no time that a test would notice.
func impatient(d dialect) dialect {
	d.(*postgresDialect).locking = locking{timeout: 300 * time.Millisecond, pause: 30 * time.Millisecond, told: time.Millisecond}
	return d
}

// logged is a buffer for several at once.
type logged struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// backingUp holds every table of a ledger as pg_dump does, until it is ended.
func backingUp(t *testing.T, dsn string) (end func()) {
	t.Helper()
	db, err := sql.Open("pgx", withParameter(t, dsn, "application_name", "pg_dump"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	require.NoError(t, err)
	names, err := query(t.Context(), tx, scanValue[string], `SELECT tablename FROM pg_tables WHERE schemaname = current_schema()`)
	require.NoError(t, err)
	_, err = tx.Exec(`LOCK TABLE ` + strings.Join(names, ", ") + ` IN ACCESS SHARE MODE; SELECT 'a secret'`)
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback()) }
}

func TestPostgresMigrationBehindABackupLetsTheOthersWork(t *testing.T) {
	t.Parallel()
	dsn := postgresTests.create(t)
	older, _ := postgresTests.ledgerAt(t, dsn)
	end := backingUp(t, dsn)

	newer := postgresTests.handle(t, dsn, time.Now)
	newer.dialect = later(t, impatient(newer.dialect), `ALTER TABLE receipts ADD COLUMN later TEXT NOT NULL DEFAULT ''; ALTER TABLE intents ADD COLUMN later TEXT NOT NULL DEFAULT ''`)
	log := new(logged)
	newer.Logger = slog.New(slog.NewTextHandler(log, nil))
	opened := make(chan error, 1)
	go func() { opened <- newer.Open(t.Context()) }()
	for n := 0; strings.Count(log.String(), `holders="process `) < 3; n++ {
		mustRecord(t, older, chainSighting(fmt.Sprint(n), StatusConfirmed))
		totals, err := older.Totals(t.Context(), testOffer)
		require.NoError(t, err)
		require.EqualValues(t, n+1, totals[0].Count)
	}
	require.Contains(t, log.String(), `of the application \"pg_dump\", a backup, idle in transaction, in a transaction since 20`)
	require.NotEmpty(t, newer.Waits())
	require.NotContains(t, log.String(), "secret")
	require.Empty(t, opened)
	require.Less(t, postgresTests.schemaVersion(t, older), older.db.known+1)

	end()
	require.NoError(t, <-opened)
	t.Cleanup(func() { _ = newer.Close() })
	require.Empty(t, newer.Waits())
	require.Contains(t, log.String(), "waits no more")
	require.Equal(t, older.db.known+1, postgresTests.schemaVersion(t, newer))
	mustRecord(t, older, chainSighting("after", StatusConfirmed))
	requireConsistent(t, newer)
}

func TestPostgresMigrationWaitsUntilItIsTakenBack(t *testing.T) {
	t.Parallel()
	dsn := postgresTests.create(t)
	older, _ := postgresTests.ledgerAt(t, dsn)
	end := backingUp(t, dsn)
	newer := postgresTests.handle(t, dsn, time.Now)
	newer.dialect = later(t, impatient(newer.dialect), `ALTER TABLE receipts ADD COLUMN later TEXT NOT NULL DEFAULT ''`)
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan error, 1)
	go func() { opened <- newer.Open(ctx) }()
	for newer.Waits() == "" {
		runtime.Gosched()
	}
	require.Contains(t, newer.Waits(), `the application "pg_dump"`, "from the first try on")
	cancel()
	err := <-opened
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, `waited for process `)
	require.ErrorContains(t, err, `the application "pg_dump"`)
	require.Empty(t, newer.Waits())
	require.Equal(t, older.db.known, postgresTests.schemaVersion(t, older))

	end()
	require.NoError(t, newer.Open(t.Context()), "and is tried again")
	require.NoError(t, newer.Close())
}

// TestPostgresStartThatIsEndedInItsFirstTrySaysForWhomItWaited: no second one comes in this test.
func TestPostgresStartThatIsEndedInItsFirstTrySaysForWhomItWaited(t *testing.T) {
	t.Parallel()
	dsn := postgresTests.create(t)
	older, _ := postgresTests.ledgerAt(t, dsn)
	end := backingUp(t, dsn)
	defer end()
	newer := postgresTests.handle(t, dsn, time.Now)
	newer.dialect = later(t, newer.dialect, `ALTER TABLE receipts ADD COLUMN later TEXT NOT NULL DEFAULT ''`)
	newer.dialect.(withMigrations).dialect.(*postgresDialect).locking = locking{timeout: time.Second, pause: time.Hour, told: time.Hour}
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan error, 1)
	go func() { opened <- newer.Open(ctx) }()
	for newer.Waits() == "" {
		runtime.Gosched()
	}
	require.Contains(t, newer.Waits(), `the application "pg_dump"`)
	cancel()
	require.ErrorContains(t, <-opened, `the application "pg_dump"`)
	require.Equal(t, older.db.known, postgresTests.schemaVersion(t, older))
}

func TestNamesOfApplicationsKeepTheirSecrets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"": "", "psql": "psql", "pg_dump": "pg_dump", "PostgreSQL JDBC Driver": "PostgreSQL JDBC Driver", "pgAdmin 4 - CONN:1234567": "pgAdmin 4 -",
		"DBeaver 23.3.0 - SQLEditor <Script-1.sql>": "DBeaver 23.3.0 - SQLEditor", "postgres://u:hidden@h/db": "", "password=hidden": "", "x hidden@host": "x",
		"sk_live_hidden0123456789": "", "worker hidden0123456789abcdef": "worker", "\x1b[2Jhidden": "", strings.Repeat("a ", 30): "a a a a",
	} {
		require.Equal(t, want, harmless(name), name)
	}
}

// additions are the statements that leave the programs of the version before what they read and write. A unique index,
// a check or a reference would refuse some of it. A number that was always generated, and is by default now, refuses less.
// The one trigger numbers what these programs write (TestTheVersionBeforeWritesBehindWhatWaitsForANumber).
var additions = regexp.MustCompile(`^(CREATE TABLE \w+ \(|CREATE INDEX |CREATE SEQUENCE |INSERT INTO |UPDATE |` +
	`CREATE FUNCTION \w+\(\) RETURNS trigger |CREATE TRIGGER transitions_in_order |` +
	`ALTER TABLE \w+ ALTER COLUMN \w+ SET (GENERATED BY DEFAULT|STORAGE EXTERNAL)$|ALTER TABLE \w+ ADD COLUMN \w+ \w+( NOT NULL DEFAULT [^ ]+)?$)`)

var functionBody = regexp.MustCompile(`\$\$.*?\$\$`)

func TestMigrationsAddAloneOrSaySo(t *testing.T) {
	t.Parallel()
	for _, d := range []dialect{new(sqliteDialect), new(postgresDialect)} {
		files, err := fs.Glob(d.migrations(), "*.sql")
		require.NoError(t, err)
		for n, name := range files {
			script, err := fs.ReadFile(d.migrations(), name)
			require.NoError(t, err)
			if n+1 >= 5 { // those before were made when one version at a time had the ledger
				assert.Empty(t, takingAway(string(script), n+1), "%T, %s: add beside what is there, or end the versions that need it", d, name)
			}
		}
	}
	for _, statement := range []string{
		"DROP TABLE receipts", "ALTER TABLE receipts DROP COLUMN tx", "ALTER TABLE receipts RENAME COLUMN tx TO hash", "ALTER TABLE receipts RENAME TO rows",
		"ALTER TABLE receipts ALTER COLUMN version TYPE INTEGER", "ALTER TABLE receipts ADD COLUMN later TEXT NOT NULL", "DELETE FROM quotes",
		"ALTER TABLE receipts ADD COLUMN later TEXT UNIQUE", "ALTER TABLE receipts ADD CHECK (amount > 0)", "CREATE UNIQUE INDEX one ON receipts (tx)",
	} {
		require.Equal(t, []string{statement}, takingAway("-- a; b\nCREATE TABLE new (x INTEGER);\n"+statement+";", 7))
		require.Empty(t, takingAway("LOCK TABLE pay_offer_schema;\nUPDATE pay_offer_schema SET oldest = 7;\n"+statement+";", 7))
		require.NotEmpty(t, takingAway("UPDATE pay_offer_schema SET oldest = 7;\n"+statement+";", 7), "those who write are to be waited for")
		require.NotEmpty(t, takingAway("LOCK TABLE pay_offer_schema;\nUPDATE pay_offer_schema SET oldest = 8;\n"+statement+";", 7))
	}
}

// takingAway lists the statements of the migration to a version that do more than add, unless it locks the schema's row
// and ends the versions before.
func takingAway(script string, version int) (statements []string) {
	var text []string
	for _, line := range strings.Split(script, "\n") {
		line, _, _ = strings.Cut(line, "--")
		text = append(text, strings.Fields(line)...)
	}
	plain := functionBody.ReplaceAllString(strings.Join(text, " "), "")
	if strings.HasPrefix(plain, "LOCK TABLE pay_offer_schema; UPDATE pay_offer_schema SET oldest = ") {
		var oldest int
		_, _ = fmt.Sscanf(plain, "LOCK TABLE pay_offer_schema; UPDATE pay_offer_schema SET oldest = %d;", &oldest)
		if 6 <= oldest && oldest <= version {
			return nil
		}
	}
	for _, statement := range strings.Split(plain, ";") {
		if statement = strings.TrimSpace(statement); statement != "" && !additions.MatchString(statement) {
			statements = append(statements, statement)
		}
	}
	return statements
}
