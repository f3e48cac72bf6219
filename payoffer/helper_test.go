package payoffer

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// standInRate holds the watcher of the source mempool, which asks a stand-in and
// has a rate already, in the pool until release or the end of the test.
func standInRate(t *testing.T) (prices *payoffertest.Prices, watcher *rate.Watcher, release func()) {
	t.Helper()
	prices = payoffertest.NewPrices(t, time.Now)
	const source = "mempool"
	use := outliving.Use(service.Environment{Logger: slog.DiscardHandler})
	watcher, err := pool.Acquire(use, pool.KeyOf("rates", []string{source}), func(*pool.Current[service.Environment]) (*rate.Watcher, error) {
		return rate.New(rate.Config{
			Sources: []string{source}, Transport: prices,
		})
	})
	require.NoError(t, err)
	watcher.Refresh(t.Context())
	release = sync.OnceFunc(func() { use.Release(func(err error) { t.Error(err) }) })
	t.Cleanup(release)
	return prices, watcher, release
}

func decode(t *testing.T, config string) *caddy.Config {
	t.Helper()
	decoded := new(caddy.Config)
	require.NoError(t, json.Unmarshal([]byte(config), decoded))
	return decoded
}

func serve(t *testing.T, svc *service.Service, path string) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	require.True(t, svc.Server.Serve(recorder, httptest.NewRequest(http.MethodGet, path, nil)))
	return recorder
}

// must fails the test if a call fails, and returns its value: must(call())(t).
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// errorOf is the error of a call.
func errorOf[T any](_ T, err error) error { return err }
