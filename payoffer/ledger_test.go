package payoffer

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// loadOnPostgres loads the smallest offer on another ledger.
func (i *instance) loadOnPostgres(dsn string) error {
	i.t.Helper()
	return loadCaddyfile(i.t, strings.Replace(i.caddyfile(smallest), "sqlite "+i.ledgerPath(), "postgres "+dsn, 1))
}

func TestPostgresLedgerOutlivesReloadsAndIsReleased(t *testing.T) {
	dsn := postgres.Shared(t).DSN(t)
	t.Setenv("OFFER_TEST_DSN", dsn)
	i := newInstance(t)
	require.NoError(t, i.loadOnPostgres("{env.OFFER_TEST_DSN}"))
	before := activeApp().share.Ledger
	record(t)
	require.NoError(t, i.loadOnPostgres("{env.OFFER_TEST_DSN}"))
	require.Same(t, before, activeApp().share.Ledger)
	require.Contains(t, i.get(i.service+"/v1/received").body, "0x01")
	require.NoFileExists(t, i.ledgerPath())

	require.NoError(t, caddy.Stop())
	require.NoError(t, outliving.Wait(t.Context()))
	require.ErrorIs(t, errorOf(before.Totals(t.Context(), "any")), ledger.ErrNotOpen)
	require.NotContains(t, i.log(), dsn)
}

func TestUnreachablePostgresKeepsTheOldConfigurationAndTheDSN(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	dsn := "postgres://hiddenrole:hiddenword@127.0.0.1:1/hiddenbase"
	err := i.loadOnPostgres(dsn)
	require.ErrorContains(t, err, "the server cannot be reached: connection refused")
	require.NotContains(t, err.Error(), "hidden")
	i.untilReceived()
	log := i.log()
	require.Contains(t, log, "secrets are in the configuration")
	require.NotContains(t, log, "hiddenword")
}

func TestPasswordInTheConfigurationIsTold(t *testing.T) {
	for dsn, literal := range map[string]bool{
		"postgres://u:word@h/base":    true,
		"host=h password=word":        true,
		"postgres:///base?host=/run":  false,
		"postgres://u@h/base":         false,
		"{env.OFFER_TEST_DSN}":        false,
		"postgres://u:{env.WORD}@h/b": false,
	} {
		require.Equal(t, literal, (&LedgerConfig{Driver: driverPostgres, DSN: dsn}).hasPassword(), dsn)
	}
}
