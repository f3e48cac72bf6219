package e2e

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// However the shipped Caddyfile is laid out, both parts answer, nothing else does, and its log keeps what is the payer's.
func TestEveryLayoutOfTheShippedCaddyfileAnswers(t *testing.T) {
	const (
		payer  = "198.51.100.7" // as a proxy in front tells it
		secret = "cmVjZWlwdA"
	)
	shipped, err := os.ReadFile(lab.Path(t, "Caddyfile"))
	require.NoError(t, err)
	first, second := payoffertest.FreePort(t), payoffertest.FreePort(t)
	for _, c := range []struct {
		layout, service, site string
		ports                 [2]string // of the service and of the site
	}{
		{"two_hosts", "http://localhost:" + first, "http://localhost:" + second, [2]string{first, second}},
		{"one_host", "http://localhost:" + first, "http://localhost:" + first, [2]string{first, first}},
		{"two_ports", "https://pay.example.org", "https://www.example.org", [2]string{first, second}},
		{"one_port", "https://www.example.org", "https://www.example.org", [2]string{first, first}},
	} {
		t.Run(c.layout, func(t *testing.T) {
			running := server.Start(t, "http://localhost:"+first, string(shipped), "LAYOUT="+c.layout, "BASE_URL="+c.service, "SITE_URL="+c.site,
				"SERVICE_PORT="+first, "SITE_PORT="+second, "ADMIN=localhost:"+payoffertest.FreePort(t), "TRUSTED_PROXIES=127.0.0.1 ::1",
				"CARD_URL=https://checkout.example.org/42", "USDC_ADDRESS=", "BTC_ADDRESS=", "TRANSFER_INBOX=", "TIP_JAR_URL=", "PACK_URL=")
			// ask is what a proxy passes on, or a browser asks.
			ask := func(origin, port, path string) (*http.Response, string) {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+path, nil)
				require.NoError(t, err)
				_, r.Host, _ = strings.Cut(origin, "://")
				r.Header.Set("X-Forwarded-For", payer)
				answer, err := http.DefaultTransport.RoundTrip(r)
				require.NoError(t, err)
				defer answer.Body.Close()
				body, err := io.ReadAll(answer.Body)
				require.NoError(t, err)
				return answer, string(body)
			}
			for _, part := range []struct{ origin, port, home, page string }{
				{c.service, c.ports[0], "/v1/pay", "/v1/pay?lang=en"}, {c.site, c.ports[1], "/offer/", "/offer/"},
			} {
				answer, body := ask(part.origin, part.port, part.page)
				require.Equal(t, http.StatusOK, answer.StatusCode, body)
				answer, body = ask(part.origin, part.port, "/no-such-path")
				require.Equal(t, http.StatusNotFound, answer.StatusCode)
				require.Equal(t, "404 Not Found", body)
				if part.port == first {
					part.home = "/v1/pay" // which one host has but once
				}
				answer, _ = ask(part.origin, part.port, "/")
				require.Equal(t, part.home, answer.Header.Get("Location"))
			}
			_, document := ask(c.service, c.ports[0], "/.well-known/agent-card.json")
			require.Contains(t, document, `"`+c.service)

			ask(c.service, c.ports[0], "/v1/receipt/"+secret+".bWFj")
			ask("https://alien.example", c.ports[0], "/v1/receipt/"+secret+".bWFj")
			running.Terminate()
			running.Await(t)
			require.NotContains(t, running.Log(), secret)
			require.Contains(t, running.Log(), `/v1/receipt/REDACTED`)
			require.Contains(t, running.Log(), `"client_ip":"`+payer+`"`)
		})
	}
}
