package agent

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestHostAndOrigin(t *testing.T) {
	local := newEndpoint(t, config(t, func(terms *offer.Terms) {
		terms.BaseURL, terms.SiteURL = "http://localhost:8402", "https://example.org"
	}))
	remote := newEndpoint(t, config(t, public))
	for _, test := range []struct {
		name         string
		endpoint     *Endpoint
		host, origin string
		status       int
	}{
		{"loopback, no browser", local, "localhost:8402", "", 200},
		{"loopback by address", local, "127.0.0.1:1234", "", 200},
		{"loopback by IPv6 address", local, "[::1]:8402", "http://[::1]:8402", 200},
		{"loopback without a Host", local, "", "", 200},
		{"loopback, a page on another port", local, "localhost:8402", "http://localhost:6274", 200},
		{"loopback, the configured site", local, "localhost:8402", "https://example.org", 200},
		{"loopback, rebound name", local, "evil.example.com", "", 403},
		{"loopback, rebound name and port", local, "evil.example.com:8402", "", 403},
		{"loopback, name that begins like it", local, "localhost.evil.example.com", "", 403},
		{"loopback, user information", local, "localhost@evil.example.com", "", 403},
		{"loopback, foreign page", local, "localhost:8402", "http://evil.example.com", 403},
		{"loopback, foreign secure page", local, "localhost:8402", "https://evil.example.com", 403},
		{"loopback, page without an origin", local, "localhost:8402", "null", 403},
		{"loopback, no origin at all", local, "localhost:8402", "localhost", 403},
		{"public", remote, "pay.example.org", "", 200},
		{"public, agent in a page of anyone", remote, "pay.example.org", "https://agent.example.com", 200},
		{"public, sandboxed page", remote, "pay.example.org", "null", 200},
		{"public, behind a proxy that names its upstream", remote, "127.0.0.1:8402", "", 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
			r.Host = test.host
			if test.origin != "" {
				r.Header.Set("Origin", test.origin)
			}
			w := httptest.NewRecorder()
			test.endpoint.ServeHTTP(w, r)
			require.Equal(t, test.status, w.Code, w.Body)
			require.Equal(t, test.status != 200, decode(t, w.Result()).Error != nil)
		})
	}
}

func TestEveryOriginHeaderIsChecked(t *testing.T) {
	e := &Endpoint{Config: Config{Offer: &offer.Offer{Terms: offer.Terms{BaseURL: "http://localhost:8402", SiteURL: "http://localhost:8403"}}}}
	r := httptest.NewRequest(http.MethodPost, "http://localhost:8402/mcp", nil)
	r.Header["Origin"] = []string{"http://localhost:8403", "http://evil.example.com"}
	require.False(t, e.allows(r))
}
