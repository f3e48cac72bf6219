package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

func TestTheShippedCaddyfileStartsBothHosts(t *testing.T) {
	shipped := server.StartShipped(t)
	for _, host := range []struct{ name, url, home string }{
		{"service", shipped.Service, "/v1/pay"},
		{"site", shipped.Site, "/offer/"},
	} {
		t.Run(host.name, func(t *testing.T) {
			answer, _ := get(t, host.url+"/")
			require.Equal(t, 3, answer.StatusCode/100, "a redirect, not %s", answer.Status)
			location, err := answer.Location()
			require.NoError(t, err)
			require.Equal(t, host.url+host.home, location.String())

			answer, body := get(t, location.String())
			require.Equal(t, http.StatusOK, answer.StatusCode)
			require.NotEmpty(t, body)

			answer, body = get(t, host.url+"/no-such-path")
			require.Equal(t, http.StatusNotFound, answer.StatusCode)
			require.NotEmpty(t, body)
		})
	}
}

func TestTheShippedCaddyfileTakesWhatPagesSayFromTheEnvironment(t *testing.T) {
	shipped := server.StartShipped(t, "RECOMMEND=btc", "LOGO=/favicon.svg", "THANKS=Thank you.", "REFUNDS=Within 14 days.", "GOAL=1000")
	_, page := get(t, shipped.Service+"/v1/pay", "text/html")
	require.Contains(t, page, `<meta property="og:image" content="`+shipped.Service+`/favicon.svg">`)
}
