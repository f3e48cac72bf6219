package command

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func TestCommandLedgerBacksUpRestoresAndMoves(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "ledger.db")
	config := configuration(t, `{"Path":"`+filepath.ToSlash(path)+`"}`)
	run := func(args ...string) (string, error) {
		return execute(t, ledgerCommand(), append(args, "--config", config)...)
	}
	for _, args := range [][]string{{"backup", filepath.Join(folder, "none.db")}, {"move", "--to", filepath.Join(folder, "other.db")}, {"forget-keys"}, {"restore", filepath.Join(folder, "none.db")}} {
		_, err := run(args...)
		require.ErrorIs(t, err, os.ErrNotExist, args)
		require.ErrorContains(t, err, path, args)
		left := must(os.ReadDir(folder))(t)
		require.Empty(t, left, "nothing is created by %s", args)
	}

	l := ledger.NewSQLite(payoffertest.LedgerFile(t), time.Now)
	require.NoError(t, l.Open(t.Context()))
	require.NoError(t, l.Register(t.Context(), ledger.Account{Offer: "one", ID: "plink_1", Rail: "card"}))
	backup, moved := filepath.Join(folder, "backup.db"), filepath.Join(folder, "moved.db")
	must(l.Backup(t.Context(), backup))(t)
	require.NoError(t, l.Close())

	const holds = " contains 0 receipts with 0 changes, 0 x402 payments and 1 accounts; sums and history agree\n"
	require.ErrorContains(t, errorOf(run("restore", backup)), "To make a new ledger at "+path+", add --create")
	require.NoFileExists(t, path)
	out := must(run("restore", "--create", backup))(t)
	require.Equal(t, "ledger: "+path+"\nthe ledger "+path+holds, out)
	require.ErrorContains(t, errorOf(run("move", "--to", moved)), "To make a new ledger at "+moved+", add --create")
	require.NoFileExists(t, moved)
	out = must(run("move", "--create", "--to", moved))(t)
	require.Contains(t, out, "the ledger "+moved+holds)
	require.Contains(t, out, "\n\tledger "+moved+"\n")
	for _, args := range [][]string{{"move", "--to", moved}, {"backup", "again.db"}, {"forget-keys"}} {
		require.ErrorContains(t, errorOf(run(args...)), path+": the ledger was moved to another database", args)
	}
	require.NoError(t, os.Remove(path))
	must(run("restore", "--create", backup))(t)
	require.ErrorContains(t, errorOf(run("move", "--to", moved)), "already contains accounts")
	t.Chdir(folder)
	out = must(run("backup", "again.db"))(t)
	require.Equal(t, "ledger: "+path+"\nagain.db"+holds, out)
	require.FileExists(t, filepath.Join(folder, "again.db"))
	require.ErrorContains(t, errorOf(run("move")), `"to" not set`)
}
