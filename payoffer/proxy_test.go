package payoffer

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"
)

// Whoever is believed can name any address as that of a buyer.
func TestAWarningSaysThatEverybodyIsBelieved(t *testing.T) {
	for ranges, warned := range map[string]bool{
		"0.0.0.0/0": true, "::/0": true, "0.0.0.0/1 128.0.0.0/1": true, "2000::/3": true, "private_ranges 0.0.0.0/0": true,
		"": false, "private_ranges": false, "192.0.2.7 203.0.113.0/24 2001:db8::/32": false,
	} {
		t.Run(ranges, func(t *testing.T) {
			i := newInstance(t)
			proxies := strings.TrimSpace("trusted_proxies static " + ranges)
			config, err := adapt(t, strings.Replace(i.caddyfile(smallest), "admin off", "servers {\n\t\t"+proxies+"\n\t}\n\tadmin off", 1))
			require.NoError(t, err)
			require.NoError(t, caddy.Load([]byte(config), true))
			require.Equal(t, warned, strings.Contains(i.log(), "everybody is believed to be a proxy"))
		})
	}
}

// What is warned of is what Caddy takes for the client's address, and the warning
// names the option that changes it.
func TestAProxyIsWarnedOfUntilItIsTrusted(t *testing.T) {
	for _, c := range []struct {
		name, base, option string
		warned             bool
	}{
		{"not trusted", "https://pay.example.org", "", true},
		{"trusted", "https://pay.example.org", "servers {\n\t\ttrusted_proxies static private_ranges\n\t\ttrusted_proxies_strict\n\t}\n\t", false},
		{"a demo", "SERVICE", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := newInstance(t)
			site := strings.NewReplacer("base_url SERVICE", "base_url "+c.base+"\n\t\ttestnet").Replace(smallest)
			config, err := adapt(t, strings.Replace(i.caddyfile(site), "admin off", c.option+"admin off", 1))
			require.NoError(t, err)
			require.NoError(t, caddy.Load([]byte(config), true))
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, i.service+"/v1/sponsor", nil)
			require.NoError(t, err)
			request.Header.Set("X-Forwarded-For", "198.51.100.7")
			request.Header.Set("PAYMENT-SIGNATURE", "e30=")
			response, err := i.client.Do(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusBadRequest, response.StatusCode)
			require.Equal(t, c.warned, strings.Contains(i.log(), "all payers share one rate limit"))
		})
	}
}
