package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// payer is the address that the proxy in front reports.
const payer = "198.51.100.7"

// layout is a running server with one of the Caddyfiles in testdata/layouts. Its hosts have
// names and certificates of Caddy's own authority, or a proxy in front that ends TLS.
type layout struct {
	*server.Process
	https, http, second string // ports
	roots               *x509.CertPool
}

func startLayout(t *testing.T, name string) *layout {
	t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the application") }))
	t.Cleanup(app.Close)
	l := &layout{https: payoffertest.FreePort(t), http: payoffertest.FreePort(t), second: payoffertest.FreePort(t)}
	content := lab.Must(os.ReadFile(filepath.Join("testdata/layouts", name+".caddyfile")))(t)
	text, options := strings.CutPrefix(string(content), "{\n")
	proxied := strings.Contains(text, ":8080")
	if !options {
		text = "\tservers {\n\t\tprotocols h1 h2\n\t}\n}\n" + text // a free port is not free in UDP
	}
	global := "{\n\tlocal_certs\n\tskip_install_trust\n\tdefault_bind 127.0.0.1\n\tgrace_period 1s\n"
	if !proxied {
		global += "\thttps_port " + l.https + "\n\thttp_port " + l.http + "\n"
	}
	text = global + strings.NewReplacer(":8080", ":"+l.http, ":8081", ":"+l.second, "localhost:3000", app.Listener.Addr().String()).Replace(text)
	l.Process = server.Start(t, "http://127.0.0.1:"+l.http, text, "CADDY_ADMIN=localhost:"+payoffertest.FreePort(t))
	if !proxied {
		l.trust(t)
	}
	return l
}

// trust reads the certificate of the server's own authority.
func (l *layout) trust(t *testing.T) {
	t.Helper()
	root := lab.Must(os.ReadFile(filepath.Join(l.Home, "data/caddy/pki/authorities/local/root.crt")))(t)
	l.roots = x509.NewCertPool()
	require.True(t, l.roots.AppendCertsFromPEM(root))
}

// get asks for an address of the world: over TLS, or as the proxy passes it on to a port.
func (l *layout) get(t *testing.T, url, port string) (*http.Response, string) {
	t.Helper()
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: l.roots}, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
		},
	}
	if l.roots == nil {
		url = strings.Replace(url, "https://", "http://", 1)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	if l.roots == nil {
		request.Header.Set("X-Forwarded-For", payer)
		request.Header.Set("X-Forwarded-Proto", "https")
	}
	var answer *http.Response
	server.Eventually(t, "there is a certificate for "+url, func() bool {
		answer, err = transport.RoundTrip(request)
		return err == nil
	})
	defer answer.Body.Close()
	body := lab.Must(io.ReadAll(answer.Body))(t)
	return answer, string(body)
}

// Every layout serves the quote, the payment page, the documents and the page of the site, each on its host.
func TestLayoutsServeTheirHosts(t *testing.T) {
	const pay, www = "https://pay.example.org", "https://www.example.org"
	for name, c := range map[string]struct {
		service, site string
		proxy, second bool
	}{
		"two-hosts":                {service: pay, site: www},
		"one-host":                 {service: pay, site: pay},
		"beside-an-application":    {service: "https://example.org", site: "https://example.org"},
		"behind-a-proxy":           {service: pay, site: www, proxy: true},
		"behind-a-proxy-two-ports": {service: pay, site: www, proxy: true, second: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := startLayout(t, name)
			port, second := l.https, l.https
			if c.proxy {
				port, second = l.http, l.http
			}
			if c.second {
				second = l.second
			}
			quote, body := l.get(t, c.service+"/v1/quote", port)
			require.Equal(t, http.StatusPaymentRequired, quote.StatusCode, body)
			for _, path := range []string{"/v1/invoice", "/.well-known/agent-card.json", "/openapi.json"} {
				document, body := l.get(t, c.service+path, port)
				require.Equal(t, http.StatusOK, document.StatusCode, path)
				require.Contains(t, body, `"`+c.service, path)
				require.NotContains(t, body, "http://pay", path)
			}
			page, _ := l.get(t, c.service+"/v1/pay?lang=en", port)
			require.Equal(t, http.StatusOK, page.StatusCode)
			site, body := l.get(t, c.site+"/offer/", second)
			require.Equal(t, http.StatusOK, site.StatusCode, body)
			require.Contains(t, body, c.service+"/v1/pay")

			if c.site != c.service {
				answer, _ := l.get(t, c.site+"/v1/quote", second)
				require.NotEqual(t, http.StatusPaymentRequired, answer.StatusCode, "the site has only its page")
			}
			if name == "beside-an-application" {
				_, body := l.get(t, c.site+"/shop", port)
				require.Equal(t, "the application", body)
			}
			if c.proxy {
				// A server that has not started completely does not end in good order.
				received, _ := l.get(t, c.service+"/v1/received", port)
				require.Equal(t, http.StatusOK, received.StatusCode)
				l.Terminate()
				l.Await(t)
				require.Contains(t, l.Log(), `"client_ip":"`+payer+`"`)
			}
		})
	}
}

// The shipped Caddyfile with the lines that its comments say: two host names with certificates.
func TestShippedCaddyfileOnTwoHosts(t *testing.T) {
	text := lab.Must(os.ReadFile("../../Caddyfile"))(t)
	https, plain := payoffertest.FreePort(t), payoffertest.FreePort(t)
	edited := payoffertest.EditCaddyfile(string(text), "bind 127.0.0.1\n\ttls internal", "base_url https://pay.example.org", "site_url https://www.example.org",
		"card https://buy.stripe.com/YOUR_LINK", "usdc base "+payoffertest.EVMAddress+" {\n facilitator https://facilitator.example.org\n}",
		"bitcoin "+payoffertest.BitcoinFirstAddress, "bank_transfer me@example.org", `storefront tip-jar ""`, `storefront pack ""`)
	edited = strings.NewReplacer("http://localhost:8402", "pay.example.org", "http://localhost:8403", "www.example.org").Replace(edited)
	edited = "{\n\tskip_install_trust\n\tgrace_period 1s\n\thttps_port " + https + "\n\thttp_port " + plain + "\n\tservers {\n\t\tprotocols h1 h2\n\t}\n}\n" + edited
	l := &layout{https: https}
	l.Process = server.Start(t, "http://127.0.0.1:"+plain, edited, "CADDY_ADMIN=localhost:"+payoffertest.FreePort(t))
	l.trust(t)

	for url, want := range map[string]struct {
		status int
		text   string
	}{
		"https://pay.example.org/v1/quote":                    {http.StatusPaymentRequired, "https://pay.example.org/v1/sponsor"},
		"https://pay.example.org/v1/pay":                      {http.StatusOK, "https://pay.example.org/v1/"},
		"https://pay.example.org/.well-known/agent-card.json": {http.StatusOK, `"https://pay.example.org/`},
		"https://pay.example.org/none":                        {http.StatusNotFound, "404 Not Found"},
		"https://www.example.org/offer/":                      {http.StatusOK, "https://pay.example.org/v1/pay"},
		"https://www.example.org/offer/none":                  {http.StatusNotFound, ""},
		"https://www.example.org/v1/quote":                    {http.StatusNotFound, "404 Not Found"},
		"https://www.example.org/":                            {http.StatusFound, ""},
	} {
		answer, body := l.get(t, url, https)
		require.Equal(t, want.status, answer.StatusCode, url)
		require.Contains(t, body, want.text, url)
	}
}
