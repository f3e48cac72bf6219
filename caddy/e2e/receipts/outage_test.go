package receipts

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

func lastSeq(r report) string {
	return strconv.FormatInt(r.Transitions[len(r.Transitions)-1].Seq, 10)
}

// On a full disk nothing is acknowledged, so that the provider repeats it, and what was received before is still told.
func TestAFullDiskAcknowledgesNothing(t *testing.T) {
	s := openShop(t, "sqlite")
	require.Equal(t, http.StatusOK, s.deliverCard(paid("1"), cardSecret))

	var before unix.Rlimit
	require.NoError(t, unix.Prlimit(s.Pid(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: unix.RLIM_INFINITY}, &before))
	require.Equal(t, http.StatusServiceUnavailable, s.deliverCard(paid("2"), cardSecret))
	require.Equal(t, "42", s.received().ReceivedUSD.String())

	require.NoError(t, unix.Prlimit(s.Pid(), unix.RLIMIT_FSIZE, &before, nil))
	require.Equal(t, http.StatusOK, s.deliverCard(paid("2"), cardSecret))
	require.Equal(t, "84", s.received().ReceivedUSD.String())
}

// A database that is gone makes every answer about money 503, and no other; when it is back, all is as before.
func TestADatabaseThatIsGoneIsNeverReportedAsNothingReceived(t *testing.T) {
	database := postgres.Start(t)
	s := openShop(t, "postgres "+strconv.Quote(database.DSN(t)))
	require.Equal(t, http.StatusOK, s.deliverCard(paid("1"), cardSecret))

	database.Stop(t)
	require.Equal(t, http.StatusServiceUnavailable, s.deliverCard(paid("2"), cardSecret))
	require.Equal(t, http.StatusServiceUnavailable, s.status("/v1/received"))
	require.Equal(t, http.StatusOK, s.status("/v1/invoice"), "what needs no ledger goes on")

	database.Start(t)
	require.Eventually(t, func() bool { return s.deliverCard(paid("2"), cardSecret) == http.StatusOK }, patience, again)
	require.Equal(t, "84", s.received().ReceivedUSD.String())
}
