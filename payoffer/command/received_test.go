package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

func TestCommandReceivedPrintsGoal(t *testing.T) {
	for members, want := range map[string]string{
		`"goalSet":true,"goalMet":null,"remainingUsdDecimal":"2.00","externalUsd":40,"externalUsdDecimal":"40.00","receivedUsd":40,"receivedUsdDecimal":"40.00","payments":1`:                                                            "one: 40.00 USD received in 1 payment\n2.00 USD remain to the goal of 42.00 USD.\n",
		`"goalSet":true,"goalMet":true,"externalUsd":210,"externalUsdDecimal":"210.00","receivedUsd":252,"receivedUsdDecimal":"252.00","payments":6`:                                                                                     "one: 252.00 USD received in 6 payments, 210.00 USD of it from customers\nThe goal of 42.00 USD is reached.\n",
		`"goalMet":true,"externalUsd":42,"receivedUsd":42,"receivedUsdDecimal":"42.00","payments":1`:                                                                                                                                     "one: 42.00 USD received in 1 payment\nMETHOD",
		`"receivedUsdDecimal":"0.00","test":{"count":2,"amountUsd":84,"amountUsdDecimal":"84.00"}`:                                                                                                                                       "one: 0.00 USD received in 0 payments\n2 test payments, 84.00 USD (test money, not counted)\nMETHOD",
		`"receivedUsdDecimal":"0.00","test":{"count":1,"amountUsdDecimal":"42.00"},"rails":[{"rail":"card","state":"observed"},{"rail":"transfer","state":"manual"},{"rail":"card","state":"partial"},{"rail":"btc","state":"unknown"}]`: "\nSome payment methods are not monitored automatically: transfer, btc\n",
	} {
		api := newAdminAPI(t)
		api.answers = []string{`{"offers":[{"id":"one","report":{"goalUsdDecimal":"42.00",` + members + `}}]}`}
		out := must(api.run(receivedCommand()))(t)
		require.Contains(t, out, want)
	}
}

func TestCommandReceivedFlagsNeedReceipts(t *testing.T) {
	for _, option := range []string{"--offer=one", "--before=7"} {
		require.ErrorContains(t, errorOf(newAdminAPI(t).run(receivedCommand(), option)), "need --receipts")
	}
}

func TestCommandReceivedMarksUnknownValue(t *testing.T) {
	dollars := report.NewDollars(new(int64(4200)))
	for want, money := range map[string]*report.Money{
		"-":           {AmountAtomic: "0"},
		"42.00 (1)":   {Count: 1, AmountAtomic: "4200", Dollars: dollars},
		"42.00+? (3)": {Count: 3, AmountAtomic: "4200", Dollars: dollars, UnknownUSD: 2},
		"? (1)":       {Count: 1, AmountAtomic: "0", UnknownUSD: 1}, // only in another currency
	} {
		require.Equal(t, want, sum(&report.Tally{Money: *money}))
	}
	require.Equal(t, "-", sum(nil))
}

func TestCommandReceivedListsFacilitators(t *testing.T) {
	api := newAdminAPI(t)
	api.answers = []string{`{"offers":[{"id":"one","report":{},"facilitators":[
		{"host":"one.example","network":"eip155:8453","bazaar_status":"rejected","bazaar_reason":"no\u001b[31m schema"},
		{"host":"two.example","network":"eip155:8453","reason":"timeout"}]}]}`}
	out := must(api.run(receivedCommand()))(t)
	var lines []string
	for line := range strings.Lines(out[strings.Index(out, "FACILITATOR"):]) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	require.Equal(t, []string{
		"FACILITATOR NETWORK STATE BAZAAR REASON", "one.example eip155:8453 up rejected " + printable("no\u001b[31m schema"), "two.example eip155:8453 timeout - -",
	}, lines)
	require.NotContains(t, out, "\u001b")

	api.answers = []string{`{"offers":[{"id":"one","report":{}}]}`}
	out = must(api.run(receivedCommand()))(t)
	require.NotContains(t, out, "FACILITATOR", "a card alone is settled by nobody")
}

func TestCommandReceivedCheckFlag(t *testing.T) {
	for answer, want := range map[string]string{
		`{"offers":[{"id":"one","report":{"rails":[{"rail":"card"}]}}]}`: "",
		`{"offers":[]}`: "no offer is running; add the directive pay_offer to the configuration and reload it",
		`{"offers":[{"id":"one","trouble":"the ledger is locked"},{"id":"two","report":{"rails":[{"rail":"card"},{"rail":"usdc","lastError":"unreachable"}]}}]}`: "one takes no payments: the ledger is locked\ntwo: payments by usdc may be missing: unreachable; read the server's log",
	} {
		api := newAdminAPI(t)
		api.answers = []string{answer}
		out, err := api.run(receivedCommand(), "--check")
		require.Empty(t, out)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, want)
		}
	}
	require.Error(t, errorOf(newAdminAPI(t).run(receivedCommand(), "--check", "--json")))
}

func TestCommandLedgerBackupRestoreMove(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "ledger.db")
	config := configuration(t, `{"Path":"`+filepath.ToSlash(path)+`"}`)
	run := func(args ...string) (string, error) {
		return execute(t, ledgerCommand(), append(args, "--config", config)...)
	}
	for _, args := range [][]string{{"backup", filepath.Join(folder, "none.db")}, {"move", "--to", filepath.Join(folder, "other.db")}, {"forget-keys"}, {"restore", config}} {
		_, err := run(args...)
		require.ErrorIs(t, err, os.ErrNotExist, args)
		require.ErrorContains(t, err, path, args)
		left := must(os.ReadDir(folder))(t)
		require.Empty(t, left, "nothing is created by %s", args)
	}

	none := filepath.Join(folder, "none.db")
	require.ErrorContains(t, errorOf(run("restore", "--create", none)), "the backup cannot be read: stat "+none)
	require.Empty(t, must(os.ReadDir(folder))(t), "nothing is created for a backup that is missing")

	l := ledger.NewSQLite(payoffertest.LedgerFile(t), time.Now)
	require.NoError(t, l.Open(t.Context()))
	require.NoError(t, l.Register(t.Context(), ledger.Account{Offer: "one", ID: "plink_1", Rail: "card"}))
	backup, moved := filepath.Join(folder, "backup.db"), filepath.Join(folder, "moved.db")
	must(l.Backup(t.Context(), backup))(t)
	require.NoError(t, l.Close())

	const holds = " contains 0 receipts with 0 changes, 0 x402 payments and 1 accounts; sums and history agree\nit has no entries\n"
	require.ErrorContains(t, errorOf(run("restore", backup)), "Only if "+path+" is the path of the server's ledger, add --create")
	require.NoFileExists(t, path)
	out := must(run("restore", "--create", backup))(t)
	require.Equal(t, "ledger: "+path+"\nthe ledger "+path+holds, out)
	require.ErrorContains(t, errorOf(run("move", "--to", moved)), "Only if "+moved+" is the path of the server's ledger, add --create")
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
