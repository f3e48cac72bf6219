package payoffer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// ledgerCommand runs 'caddy pay-offer ledger' with the instance's configuration,
// on another ledger if one is named.
func (i *instance) ledgerCommand(ledger string, args ...string) (string, error) {
	i.t.Helper()
	file := filepath.Join(i.t.TempDir(), "Caddyfile")
	text := i.caddyfile(smallest)
	if ledger != "" {
		text = strings.Replace(text, "sqlite "+i.ledgerPath(), ledger, 1)
	}
	require.NoError(i.t, os.WriteFile(file, []byte(text), 0o600))
	return payOffer(i.t, append([]string{"ledger"}, append(args, "--config", file)...)...)
}

const copied = "contains 1 receipts with 1 changes, 0 x402 payments and 2 accounts; sums and history agree\n"

func TestCommandLedgerBacksUpARunningServerAndRestores(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	record(t)
	backup := filepath.Join(i.folder, "backup.db")
	out := must(i.ledgerCommand("", "backup", backup))(t)
	require.Equal(t, "ledger: "+i.ledgerPath()+"\n"+backup+" "+copied, out)
	require.ErrorContains(t, errorOf(i.ledgerCommand("", "backup", backup)), "already exists")
	require.ErrorContains(t, errorOf(i.ledgerCommand("", "restore", backup)), "in use by another process")
	_, err := i.ledgerCommand("", "move", "--to", "sqlite "+filepath.Join(i.folder, "other.db"))
	require.ErrorContains(t, err, "in use by another process")
	require.NoFileExists(t, filepath.Join(i.folder, "other.db"))

	require.NoError(t, caddy.Stop())
	require.NoError(t, outliving.Wait(t.Context()))
	require.ErrorContains(t, errorOf(i.ledgerCommand("", "restore", backup)), "already contains accounts")
	require.NoError(t, os.Remove(i.ledgerPath()))
	_, err = i.ledgerCommand("", "restore", backup)
	require.ErrorContains(t, err, "there is no ledger")
	require.ErrorContains(t, err, "To make a new ledger at "+i.ledgerPath()+", add --create")
	require.NoFileExists(t, i.ledgerPath())
	out = must(i.ledgerCommand("", "restore", "--create", backup))(t)
	require.Equal(t, "ledger: "+i.ledgerPath()+"\nthe ledger "+i.ledgerPath()+" "+copied, out)
	require.NoError(t, i.load(smallest))
	require.Contains(t, i.get(i.service+"/v1/received").body, "0x01")
}

func TestCommandLedgerMovesToPostgresAndBack(t *testing.T) {
	dsn := postgres.Shared(t).DSN(t)
	t.Setenv("OFFER_TEST_DSN", dsn)
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	record(t)
	require.NoError(t, caddy.Stop())
	require.NoError(t, outliving.Wait(t.Context()))

	config := must(pgx.ParseConfig(dsn))(t)
	database := "ledger: the database " + config.Database + " on " + config.Host + "\n"
	_, err := i.ledgerCommand("", "move", "--to", "postgres {env.OFFER_TEST_DSN}")
	require.ErrorContains(t, err, "add --create")
	out := must(i.ledgerCommand("", "move", "--create", "--to", "postgres {env.OFFER_TEST_DSN}"))(t)
	require.Equal(t, "ledger: "+i.ledgerPath()+"\n"+database+"the ledger on PostgreSQL "+copied+`Write this into the global option pay_offer of the configuration, and start the server:
	ledger postgres {env.OFFER_TEST_DSN}
The old ledger keeps its data and accepts no more payments.
`, out)
	require.ErrorContains(t, i.load(smallest), "moved to another database")
	require.NoError(t, i.loadOnPostgres("{env.OFFER_TEST_DSN}"))
	require.Contains(t, i.get(i.service+"/v1/received").body, "0x01")
	backup, other := filepath.Join(i.folder, "backup.db"), "sqlite "+filepath.Join(i.folder, "other.db")
	out = must(i.ledgerCommand("postgres {env.OFFER_TEST_DSN}", "backup", backup))(t)
	require.Equal(t, database+backup+" "+copied, out)
	_, err = i.ledgerCommand("postgres {env.OFFER_TEST_DSN}", "move", "--to", other)
	require.ErrorContains(t, err, "stop all instances first")
	require.NotContains(t, err.Error(), dsn)

	require.NoError(t, caddy.Stop())
	require.NoError(t, outliving.Wait(t.Context()))
	_, err = i.ledgerCommand("postgres {env.OFFER_TEST_DSN}", "move", "--to", other)
	require.ErrorContains(t, err, "add --create")
	require.NoFileExists(t, filepath.Join(i.folder, "other.db"))
	must(i.ledgerCommand("postgres {env.OFFER_TEST_DSN}", "move", "--create", "--to", other))(t)
	out = must(i.ledgerCommand(other, "backup", filepath.Join(i.folder, "second.db")))(t)
	require.Contains(t, out, copied)
}

func TestCommandLedgerTakesNoDSNAsAnArgument(t *testing.T) {
	i := newInstance(t)
	for to, want := range map[string]string{
		"postgres postgres://u:hiddenword@127.0.0.1:1/base": "other users of this machine can read arguments",
		"postgres":                      "needs a DSN",
		"postgres {env.NOT_SET_AT_ALL}": "set it to a DSN",
		"mysql x":                       "the driver is unknown",
	} {
		_, err := i.ledgerCommand("", "move", "--to", to)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hiddenword")
	}
	require.NoFileExists(t, i.ledgerPath())
}
