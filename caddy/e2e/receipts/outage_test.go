package receipts

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// On a full disk nothing is acknowledged, so that the provider repeats it, and what was received before is still told.
func TestAFullDiskAcknowledgesNothing(t *testing.T) {
	s := openShop(t, "sqlite")
	require.Equal(t, http.StatusOK, s.pay("1"))

	var before unix.Rlimit
	require.NoError(t, unix.Prlimit(s.Pid(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: unix.RLIM_INFINITY}, &before))
	require.Equal(t, http.StatusServiceUnavailable, s.pay("2"))
	require.Equal(t, "42", s.received().ReceivedUSD.String())

	require.NoError(t, unix.Prlimit(s.Pid(), unix.RLIMIT_FSIZE, &before, nil))
	require.Equal(t, http.StatusOK, s.pay("2"))
	require.Equal(t, "84", s.received().ReceivedUSD.String())
}

// A database that is gone makes every answer about money 503, and no other; when it is back, all is as before.
func TestADatabaseThatIsGoneIsNeverReportedAsNothingReceived(t *testing.T) {
	database := postgres.Start(t)
	s := openShop(t, "postgres "+strconv.Quote(database.DSN(t)))
	require.Equal(t, http.StatusOK, s.pay("1"))

	database.Stop(t)
	require.Equal(t, http.StatusServiceUnavailable, s.pay("2"))
	require.Equal(t, http.StatusServiceUnavailable, s.status("/v1/received"))
	require.Equal(t, http.StatusOK, s.status("/v1/invoice"), "what needs no ledger goes on")

	database.Start(t)
	server.Eventually(t, "the database is back", func() bool { return s.pay("2") == http.StatusOK })
	require.Equal(t, "84", s.received().ReceivedUSD.String())
}
