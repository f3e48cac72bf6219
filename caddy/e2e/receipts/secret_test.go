package receipts

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// The address of a storefront's webhook ends in its secret; the shipped Caddyfile keeps it out of the log.
func TestTheSecretOfAWebhookIsInNoLogOfTheShippedCaddyfile(t *testing.T) {
	shipped := server.StartShipped(t, "TIP_JAR_PRODUCT="+product, "TIP_JAR_HOOK_SECRET="+storeSecret)
	s := &shop{Process: shipped.Process, t: t, url: shipped.Service}
	require.Eventually(t, func() bool { return s.status("/v1/received") == http.StatusOK }, patience, again)
	require.Equal(t, http.StatusOK, s.deliverSale("sale-1", storeSecret))
	require.Equal(t, http.StatusServiceUnavailable, s.status("/v1/hook/pack/"+storeSecret), "a hook whose secret has no value")
	require.Equal(t, http.StatusNotFound, s.status("/v1/hook/none/"+storeSecret))
	require.Equal(t, http.StatusMethodNotAllowed, s.status("/v1/hook/tip-jar/"+storeSecret))
	s.status("/v1/hook/tip-jar/" + storeSecret + "/more")
	s.status("/v1//hook/tip-jar/" + storeSecret)

	s.Terminate()
	s.Await(t)
	log := s.Log()
	require.Contains(t, log, "/v1/hook/tip-jar/REDACTED")
	require.GreaterOrEqual(t, strings.Count(log, `"uri": "/v1/hook/`)+strings.Count(log, `"uri":"/v1/hook/`), 4)
	require.NotContains(t, log, storeSecret)
}
