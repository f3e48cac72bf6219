package reload

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

const manyGlobal = `{
	admin 127.0.0.1:{ADMIN}
	persist_config off
	default_bind 127.0.0.1
	storage file_system {DIR}
	pay_offer {
		ledger sqlite {DIR}/ledger.db
	}
}
http://localhost:{PORT} {
	respond 404
}
`

const manyOffer = `http://{HOST} {
	pay_offer {
		base_url http://{HOST}
		card https://checkout.example/pay
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR}
			rpc {RPC}
			confirm latest
		}
	}
	respond 404
}
`

// counted is a way to a server that counts the requests.
func counted(t *testing.T, target string) (address string, asked *atomic.Int64) {
	t.Helper()
	asked, proxy := new(atomic.Int64), httputil.NewSingleHostReverseProxy(lab.Must(url.Parse(target))(t))
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) } // who asked has left
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL, asked
}

// A reload of many offers reads their chain about as often as that of one, and asks their facilitator nothing.
func TestReloadOfManyOffersReadsChainOnce(t *testing.T) {
	offers := cases.EndToEnd(40, 1000, 1000)
	simulated, facilitator, port, admin := chain.Start(t), payoffertest.NewFacilitator(t), payoffertest.FreePort(t), payoffertest.FreePort(t)
	simulated.Pause()
	rpc, asked := counted(t, simulated.URL)
	host := func(n int) string { return fmt.Sprintf("o%d.localhost:%s", n, port) }
	var caddyfile strings.Builder
	values := []string{"{ADMIN}", admin, "{DIR}", t.TempDir(), "{PORT}", port, "{FACILITATOR}", facilitator.URL(), "{RPC}", rpc}
	fill := func(text string, more ...string) {
		_, _ = strings.NewReplacer(append(more, values...)...).WriteString(&caddyfile, text) // into memory
	}
	fill(manyGlobal)
	for n := range offers {
		fill(manyOffer, "{HOST}", host(n), "{PAYEE}", fmt.Sprintf("0x%040x", 0xa11ce<<20+n))
	}
	awaitObserved := func(n int) {
		head := fmt.Sprintf("block %d", simulated.Head())
		server.Eventually(t, host(n)+" has read its chain", func() bool {
			request := lab.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost:"+port+"/v1/received", nil))(t)
			request.Host = host(n)
			a, err := server.Client.Do(request)
			if err != nil {
				return false
			}
			defer a.Body.Close()
			body, err := io.ReadAll(a.Body)
			states := rails(string(body))
			return err == nil && len(states) == 2 && states[1].ObservedThrough == head
		})
	}
	began := time.Now()
	server.Start(t, "http://localhost:"+port, caddyfile.String())
	t.Logf("%d offers start in %s", offers, time.Since(began))
	awaitObserved(offers - 1)
	supported := len(facilitator.Calls(payoffertest.CallSupported))
	require.Equal(t, 1, supported)
	for range 3 {
		before, began := asked.Load(), time.Now()
		a, err := server.Load("127.0.0.1:"+admin, caddyfile.String())
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, a.Status, a.Body)
		t.Logf("a reload takes %s", time.Since(began))
		simulated.Mine(t, 1)
		awaitObserved(offers - 1)
		awaitObserved(0)
		t.Logf("the chain was asked %d times until all offers had read it", asked.Load()-before)
		require.Less(t, asked.Load()-before, int64(offers))
	}
	require.Len(t, facilitator.Calls(payoffertest.CallSupported), supported)
}
