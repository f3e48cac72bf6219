package reload

import (
	"crypto/ecdsa"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// Lines of the module's log that the test causes: the first by a request, the others in the background.
const (
	logNoAnswer     = "facilitator did not verify a payment"
	logNotAnnounced = "notification failed; it is retried"
	logAskedAgain   = "facilitator is up again"
)

// A reload fails because another app does not start, before or after this module's, for Caddy starts them in any order. The
// old configuration goes on as if nothing had happened: it answers, pays, announces and logs, and no line goes to the log of
// the one that failed.
func TestAReloadThatFailsLeavesTheOldConfigurationWhole(t *testing.T) {
	t.Parallel()
	s := openShop(t, logTo("old.log"))
	limited, buyers := s.exhaust(), []*ecdsa.PrivateKey{s.chain.Buyers[0], s.chain.Buyers[1], s.chain.Payer}
	s.awaitHealth()
	before := s.state(limited)

	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	port := taken.Addr().String()[len("127.0.0.1:"):]
	for n := range 16 {
		failing := s.config(descriptions[n%2], logTo("failed.log")) +
			"http://localhost:" + port + " {\n\trespond 404\n}\n"
		a, err := server.Load(s.admin, failing)
		require.NoError(t, err)
		require.NotEqual(t, http.StatusOK, a.Status)
		require.Contains(t, a.Body, "address already in use")
		require.Equal(t, before, s.state(limited), "reload %d", n+1)
	}

	require.Contains(t, server.Get(t, s.url+"/openapi.json", ""), descriptions[0])
	require.NotContains(t, server.Get(t, s.url+"/v1/pay", "text/html"), descriptions[1])
	body, header := server.CardPaid("1", 4200, cardSecret)
	require.Equal(t, http.StatusOK, server.Ask(server.Client, http.MethodPost, s.url+"/v1/hook/card", body, header).Status)
	body, header = server.StorefrontSale("sale-1", 4200)
	require.Equal(t, http.StatusOK, server.Ask(server.Client, http.MethodPost, s.url+"/v1/hook/tip-jar/"+storeSecret, body, header).Status)
	first := s.requirePaid(buyers[0])
	s.awaitAnnounced(first)
	output, err := server.Command(t, "", "record", "--address", s.admin, "--offer", "shop", "--rail", "transfer", "--reference", "INV-1", "--amount", "42")
	require.NoError(t, err, output)
	s.awaitAnnounced("transfer:INV-1:1")

	s.facilitator.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Status: http.StatusInternalServerError}, payoffertest.FacilitatorReply{})
	require.Equal(t, http.StatusServiceUnavailable, s.pay(server.Client, s.sign(buyers[1])).Status)
	s.receiver.Down()
	second := s.requirePaid(buyers[2])
	s.broken.Release() // it works from now on
	for _, line := range []string{logNoAnswer, logNotAnnounced, logAskedAgain} {
		server.Eventually(t, "the log says: "+line, func() bool {
			log, err := os.ReadFile(s.path("old.log"))
			require.NoError(t, err)
			return strings.Contains(string(log), line)
		})
		log, _ := os.ReadFile(s.path("failed.log")) // which there may be none of
		require.NotContains(t, string(log), line)
	}
	s.receiver.Up()
	s.awaitAnnounced(second)
	s.requireCharged([]string{first, second})
}

// awaitAnnounced returns when the receiver was told of something.
func (s *shop) awaitAnnounced(what string) {
	s.Helper()
	server.Eventually(s, what+" is announced", func() bool {
		for _, request := range s.receiver.Requests() {
			if strings.Contains(string(request.Body), what) {
				return true
			}
		}
		return false
	})
}
