package payoffer

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is warned of is what Caddy takes for the client's address, and the warning
// names the option that changes it.
func TestAProxyIsWarnedOfUntilItIsTrusted(t *testing.T) {
	const strict = "\n\t\ttrusted_proxies_strict\n\t}\n\t"
	for _, c := range []struct {
		name, base, option string
		socket, warned     bool
	}{
		{name: "not trusted", base: "https://pay.example.org", warned: true},
		{name: "trusted", base: "https://pay.example.org", option: "servers {\n\t\ttrusted_proxies static private_ranges" + strict},
		{name: "a socket", base: "https://pay.example.org", socket: true, warned: true},
		{name: "a trusted socket", base: "https://pay.example.org", socket: true, option: "servers {\n\t\ttrusted_proxies_unix" + strict},
		{name: "a demo", base: "SERVICE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := newInstance(t)
			site := strings.NewReplacer("base_url SERVICE", "base_url "+c.base+"\n\t\ttestnet").Replace(smallest)
			if c.socket {
				socket := filepath.Join(i.folder, "socket")
				site = strings.Replace(site, "pay_offer {", "bind unix/"+socket+"\n\tpay_offer {", 1)
				i.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "unix", socket)
				}
			}
			caddyfile := strings.Replace(i.caddyfile(site), "admin off", c.option+"admin off", 1)
			require.NoError(t, loadCaddyfile(t, caddyfile))
			request := must(http.NewRequestWithContext(t.Context(), http.MethodPost, i.service+"/v1/sponsor", nil))(t)
			request.Header.Set("X-Forwarded-For", "198.51.100.7")
			request.Header.Set("PAYMENT-SIGNATURE", "e30=")
			response := must(i.client.Do(request))(t)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusBadRequest, response.StatusCode)
			require.Equal(t, c.warned, strings.Contains(i.log(), "all payers share one rate limit"))
		})
	}
}
