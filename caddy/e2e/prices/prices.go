// Package prices gives a server under test a price of Bitcoin without a network.
package prices

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// The hosts at which the price sources "mempool" and "coinbase" are asked: two are enough without the option rates.
const mempool, coinbase = "mempool.space", "api.coinbase.com"

// Start gives the server a price of Bitcoin: the variables that it returns name a proxy that leads to a fake, and
// the authority of the fake's certificate.
func Start(t testing.TB) (env []string) {
	t.Helper()
	return StartOf(t, payoffertest.NewPrices(t, time.Now))
}

// StartOf is Start with a fake that the test scripts, as the sources "mempool" and "coinbase".
func StartOf(t testing.TB, scripted *payoffertest.Prices) (env []string) {
	t.Helper()
	prices, err := url.Parse(scripted.URL())
	require.NoError(t, err)
	certificate, authority := lab.NewCertificate(t, mempool, coinbase)
	site := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(prices))
	site.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	site.StartTLS()
	t.Cleanup(site.Close)

	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lab.Tunnel(w, r, site.Listener.Addr().String())
	}))
	t.Cleanup(proxy.Close)
	file := filepath.Join(t.TempDir(), "authority.pem")
	require.NoError(t, os.WriteFile(file, authority, 0o600))
	return []string{"HTTPS_PROXY=" + proxy.URL, "SSL_CERT_FILE=" + file}
}
