package payoffertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// emptyLedger is the file of a ledger with nothing in it.
var emptyLedger = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ledger.db")
	l := ledger.NewSQLite(path, time.Now)
	if err := errors.Join(l.Open(context.Background()), l.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// LedgerFile is the path of an empty SQLite ledger of the test's own: a copy,
// for to migrate takes longer than most tests.
func LedgerFile(t testing.TB) string {
	t.Helper()
	empty, err := emptyLedger()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "ledger.db")
	require.NoError(t, os.WriteFile(path, empty, 0o600))
	return path
}
