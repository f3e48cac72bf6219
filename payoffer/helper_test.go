package payoffer

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

// standInRate pools a watcher of the source mempool that asks a stand-in and
// has a rate already. The pool's reference is given back by release, or when
// the test ends.
func standInRate(t *testing.T) (prices *payoffertest.Prices, release func()) {
	t.Helper()
	prices = payoffertest.NewPrices(t, time.Now)
	const key = "mempool"
	value, loaded, err := watchers.LoadOrNew(key, func() (caddy.Destructor, error) {
		return newRateWatcher(key, rate.Config{
			Sources: []string{key}, Client: prices.Client(),
			Endpoints: map[string]string{key: prices.Endpoints()[key]},
		})
	})
	require.NoError(t, err)
	require.False(t, loaded)
	value.(*rateWatcher).Refresh(t.Context())
	release = sync.OnceFunc(func() {
		_, err := watchers.Delete(key)
		require.NoError(t, err)
	})
	t.Cleanup(release)
	return prices, release
}

func decode(t *testing.T, config string) *caddy.Config {
	t.Helper()
	decoded := new(caddy.Config)
	require.NoError(t, json.Unmarshal([]byte(config), decoded))
	return decoded
}

// resolve makes a Location absolute.
func resolve(t *testing.T, base, location string) string {
	t.Helper()
	require.NotEmpty(t, location)
	origin, err := url.Parse(base)
	require.NoError(t, err)
	found, err := origin.Parse(location)
	require.NoError(t, err)
	return found.String()
}

func serve(t *testing.T, svc *service, path string) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	require.True(t, svc.server.Serve(recorder, httptest.NewRequest(http.MethodGet, path, nil)))
	return recorder
}
