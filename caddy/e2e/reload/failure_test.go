package reload

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// Lines of the module's log that the test causes: the first by a request, the others in the background.
const (
	logNoAnswer     = "facilitator gave no answer"
	logNotAnnounced = "notification failed; it is retried"
	logAskedAgain   = "facilitator is up again"
)

// A reload fails because another app does not start, before or after this module's, for Caddy starts them in any order. The
// old configuration goes on as if nothing had happened: it answers, pays, announces and logs, and no line goes to the log of
// the one that failed.
func TestAReloadThatFailsLeavesTheOldConfigurationWhole(t *testing.T) {
	t.Parallel()
	s := openShop(t, logTo("old.log"))
	requests, limited := s.requests(), s.exhaust()
	buyers := s.newBuyers(3)
	s.awaitHealth()
	before, found := s.state(limited), newFindings()

	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	port := taken.Addr().String()[len("127.0.0.1:"):]
	for n := range 16 {
		failing := s.config(descriptions[n%2], logTo("failed.log")) +
			"http://localhost:" + port + " {\n\trespond 404\n}\n"
		a, err := s.load(failing)
		require.NoError(t, err)
		require.NotEqual(t, http.StatusOK, a.status)
		require.Contains(t, a.body, "address already in use")
		found.compare(n+1, before, s.state(limited))
	}
	found.report(s)

	for _, r := range requests {
		a := s.send(loopback, r)
		require.Equal(t, r.want, a.status, "%s: %s", r, a.body)
	}
	require.Contains(t, s.get(s.url+"/openapi.json"), descriptions[0])
	require.NotContains(t, s.get(s.url+"/openapi.json"), descriptions[1])
	first := s.requirePaid(loopback, buyers[0])
	s.awaitAnnounced(first)
	entry := exec.Command(server.Released(t), "pay-offer", "record", "--address", strings.TrimPrefix(s.admin, "http://"),
		"--offer", "shop", "--rail", "transfer", "--reference", "INV-1", "--amount", "42")
	output, err := entry.CombinedOutput()
	require.NoError(t, err, "%s", output)
	s.awaitAnnounced("transfer:INV-1:1")

	s.facilitator.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Status: http.StatusInternalServerError}, payoffertest.FacilitatorReply{})
	require.Equal(t, http.StatusServiceUnavailable, s.pay(loopback, s.sign(buyers[1])).status)
	s.receiver.Down()
	second := s.requirePaid(loopback, buyers[2])
	s.broken.Release() // it works from now on
	for _, line := range []string{logNoAnswer, logNotAnnounced, logAskedAgain} {
		s.eventually("the log says: "+line, func() bool { return strings.Contains(s.read("old.log"), line) })
		require.NotContains(t, s.read("failed.log"), line)
	}
	s.receiver.Up()
	s.awaitAnnounced(second)
	s.requireCharged([]string{first, second})
}

// awaitAnnounced returns when the receiver was told of something.
func (s *shop) awaitAnnounced(what string) {
	s.Helper()
	s.eventually(what+" is announced", func() bool {
		for _, request := range s.receiver.Requests() {
			if strings.Contains(string(request.Body), what) {
				return true
			}
		}
		return false
	})
}

// read returns a file of the shop's folder; empty while there is none.
func (s *shop) read(file string) string {
	data, err := os.ReadFile(s.path(file))
	if !os.IsNotExist(err) {
		require.NoError(s, err)
	}
	return string(data)
}
