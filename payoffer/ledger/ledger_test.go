package ledger

import (
	"context"
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	testOffer   = "pay.example"
	testAccount = "eip155:84532/erc20:0x036cbd53842c5426634e7929541ec2318f3dcf7e/0x1111111111111111111111111111111111111111"
	cardAccount = "plink_1"
)

// testClock is a clock that tests set.
type testClock struct {
	mu   sync.Mutex
	unix int64
}

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Unix(c.unix, 0)
}

func (c *testClock) set(unix int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unix = unix
}

func newLedger(t testing.TB) (*Ledger, *testClock) {
	t.Helper()
	return newLedgerAt(t, filepath.Join(t.TempDir(), "ledger.db"))
}

// newLedgerAt opens a ledger with the two accounts that tests pay to.
func newLedgerAt(t testing.TB, path string) (*Ledger, *testClock) {
	t.Helper()
	clock := &testClock{unix: 1_000}
	l := NewSQLite(path, clock.now)
	require.NoError(t, l.Open(t.Context()))
	t.Cleanup(func() { _ = l.Close() })
	require.NoError(t, l.Register(t.Context(),
		Account{Offer: testOffer, ID: testAccount, Rail: "usdc", Testnet: true},
		Account{Offer: testOffer, ID: cardAccount, Rail: "card"}))
	return l, clock
}

func TestMethodsBeforeOpenAndAfterCloseSayNotOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := NewSQLite(path, time.Now)
	calls := func() {
		_, err := l.Totals(t.Context(), testOffer)
		require.ErrorIs(t, err, ErrNotOpen)
		_, err = l.Record(t.Context(), nil)
		require.ErrorIs(t, err, ErrNotOpen)
		_, _, err = l.Intent(t.Context(), IntentKey{})
		require.ErrorIs(t, err, ErrNotOpen)
		require.ErrorIs(t, l.Register(t.Context()), ErrNotOpen)
	}
	calls()
	require.NoFileExists(t, path)
	require.NoError(t, l.Open(t.Context()))
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	calls()
	require.NoError(t, (*Ledger)(nil).Close())
}

func TestOpenIsIdempotentAndKeepsWhatIsStored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, _ := newLedgerAt(t, path)
	require.NoError(t, l.Open(t.Context()))
	_, err := l.Record(t.Context(), nil, chainSighting("0xa", StatusConfirmed))
	require.NoError(t, err)
	require.NoError(t, l.Close())

	again, _ := newLedgerAt(t, path)
	receipts, err := again.Receipts(t.Context(), testOffer, 0, 10)
	require.NoError(t, err)
	require.Len(t, receipts, 1)
}

func TestPathsWithSpecialCharacters(t *testing.T) {
	for _, name := range []string{"a b", "a?mode=memory", "50%25", "a#b", "a&_pragma=x", "a+b", "ü'\""} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name, name+".db")
			if runtime.GOOS == "windows" && name != "a b" {
				path = filepath.Join(t.TempDir(), "a b.db")
			}
			newLedgerAt(t, path)
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.NotZero(t, info.Size(), "the schema went to another file")
		})
	}
}

func TestFolderAndFilesArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no permission bits")
	}
	folder := filepath.Join(t.TempDir(), "new")
	newLedgerAt(t, filepath.Join(folder, "ledger.db"))
	info, err := os.Stat(folder)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 3)
	for _, file := range files {
		info, err := file.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file.Name())
	}
}

func TestCommitsAreDurable(t *testing.T) {
	l, _ := newLedger(t)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		var got string
		require.NoError(t, l.db.write.QueryRow("PRAGMA "+pragma).Scan(&got))
		require.Equal(t, want, got, pragma)
	}
	_, err := l.db.read.Exec("DELETE FROM accounts")
	require.ErrorContains(t, err, "readonly")
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, _ := newLedgerAt(t, path)
	_, err := l.db.write.Exec("PRAGMA user_version = 99")
	require.NoError(t, err)
	require.NoError(t, l.Close())

	l = NewSQLite(path, time.Now)
	err = l.Open(t.Context())
	require.ErrorIs(t, err, ErrNewerSchema)
	require.ErrorContains(t, err, "99")
	// The refusal leaves nothing locked behind.
	require.ErrorIs(t, l.Open(t.Context()), ErrNewerSchema)
}

func TestDatabaseOfAnotherProgramIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	other, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = other.Exec("CREATE TABLE notes (text)")
	require.NoError(t, err)
	require.NoError(t, other.Close())
	require.ErrorContains(t, NewSQLite(path, time.Now).Open(t.Context()), "another program")
}

func TestSecondHandleIsRefusedUntilTheFirstCloses(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "ledger.db")
	l, _ := newLedgerAt(t, path)
	link := filepath.Join(folder, "link.db")
	require.NoError(t, os.Symlink(path, link))
	for _, name := range []string{path, link} {
		second := NewSQLite(name, time.Now)
		err := second.Open(t.Context())
		require.ErrorIs(t, err, ErrInUse)
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, "ledger file of its own")
	}
	require.NoError(t, l.Close())
	second := NewSQLite(path, time.Now)
	require.NoError(t, second.Open(t.Context()))
	require.NoError(t, second.Close())
}

func TestLockOutlivesTheContextOfOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	ctx, cancel := context.WithCancel(t.Context())
	l := NewSQLite(path, time.Now)
	require.NoError(t, l.Open(ctx))
	defer l.Close()
	cancel()
	require.ErrorIs(t, NewSQLite(path, time.Now).Open(t.Context()), ErrInUse)
	require.NoError(t, l.Register(t.Context()))
}

func TestUnusablePathIsAnError(t *testing.T) {
	folder := t.TempDir()
	require.Error(t, NewSQLite(folder, time.Now).Open(t.Context()))

	garbage := filepath.Join(folder, "garbage.db")
	require.NoError(t, os.WriteFile(garbage, []byte("this is no database, and long enough to be taken for one: "+garbage), 0o600))
	require.ErrorContains(t, NewSQLite(garbage, time.Now).Open(t.Context()), garbage)
}

func TestMigrationsRunOnceInOrderAndAllOrNothing(t *testing.T) {
	l, _ := newLedger(t)
	next := fstest.MapFS{
		"0001.sql": {Data: []byte("SELECT broken: version 1 is applied already")},
		"0002.sql": {Data: []byte("CREATE TABLE second (x); INSERT INTO second VALUES (1);")},
		"0003.sql": {Data: []byte("CREATE TABLE third (x); INSERT INTO nowhere VALUES (1);")},
	}
	d := withMigrations{l.dialect, next}
	require.ErrorContains(t, migrate(t.Context(), d, l.db.write), "0003.sql")
	var version, tables int
	require.NoError(t, l.db.write.QueryRow("PRAGMA user_version").Scan(&version))
	require.Equal(t, 2, version)
	require.NoError(t, l.db.write.QueryRow("SELECT count(*) FROM sqlite_schema WHERE name = 'third'").Scan(&tables))
	require.Zero(t, tables)

	next["0003.sql"].Data = []byte("DROP TABLE second")
	require.NoError(t, migrate(t.Context(), d, l.db.write))
	require.NoError(t, migrate(t.Context(), d, l.db.write))
}

type withMigrations struct {
	dialect
	files fstest.MapFS
}

func (d withMigrations) migrations() fs.FS { return d.files }
