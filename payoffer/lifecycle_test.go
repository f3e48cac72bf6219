package payoffer

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// While configurations change, no request gets another answer than the offer's.
// A new connection may be reset by the kernel while Caddy hands its listener
// over, with any handler; clients try that again.
func TestReloadUnderTrafficFailsNoRequest(t *testing.T) {
	for name, sites := range map[string]func(n int) string{
		"the same":    func(int) string { return smallest },
		"other gates": func(n int) string { return gated("start /part-" + strconv.Itoa(n)) },
	} {
		t.Run(name, func(t *testing.T) {
			i := newInstance(t)
			require.NoError(t, i.load(sites(0)))
			want := i.get(i.service + "/v1/quote")
			require.Equal(t, http.StatusPaymentRequired, want.status)
			var stop atomic.Bool
			var right, wrong atomic.Int64
			var clients sync.WaitGroup
			for range 4 {
				clients.Go(func() {
					for !stop.Load() {
						response, err := i.client.Get(i.service + "/v1/quote")
						if err != nil {
							continue
						}
						body, err := io.ReadAll(response.Body)
						response.Body.Close()
						if err != nil || response.StatusCode != want.status || string(body) != want.body {
							wrong.Add(1)
						} else {
							right.Add(1)
						}
					}
				})
			}
			for n := range 10 {
				before := right.Load()
				require.NoError(t, i.load(sites(n+1)))
				for right.Load() == before {
					runtime.Gosched() // every configuration answers
				}
			}
			stop.Store(true)
			clients.Wait()
			require.Zero(t, wrong.Load())
			require.NotContains(t, i.log(), "panic")
		})
	}
}

// Caddy does not wait for running requests when it replaces a configuration:
// what they use must outlast it.
func TestRequestThatRunsDuringAReloadIsAnswered(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	old := activeApp().running()[0]

	require.NoError(t, i.load(strings.Replace(smallest, "checkout.example", "other.example", 1)))

	require.Contains(t, serve(t, old, "/v1/quote").Body.String(), "checkout.example")
	require.Equal(t, http.StatusOK, serve(t, old, "/v1/received").Code)
	for !strings.Contains(i.get(i.service+"/v1/quote").body, "other.example") {
		runtime.Gosched() // until the old listener is closed
	}
}

// withBitcoin is smallest with a Bitcoin rail whose rate standInRate gives.
var withBitcoin = strings.Replace(smallest, "\t\tusdc", `		bitcoin bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4 {
			rates mempool
		}
		usdc`, 1)

// A configuration that changes nothing for an offer goes on with the same one.
func TestUnchangedOfferIsTheSameAfterAReload(t *testing.T) {
	i := newInstance(t)
	_, watcher, _ := standInRate(t)
	require.NoError(t, i.load(withBitcoin))
	before := activeApp().running()[0]
	held := outliving.Len()

	require.NoError(t, i.load(withBitcoin+"OTHER {\n\trespond \"another site\"\n}\n"))

	require.NoError(t, outliving.Wait(t.Context()))
	require.Same(t, before, activeApp().running()[0])
	require.Equal(t, held, outliving.Len())
	require.Equal(t, http.StatusOK, i.get(i.service+"/v1/pay/btc.uri").status)
	require.NotNil(t, watcher)
}

func TestFailedReloadLeavesTheOldOfferRunning(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	app := activeApp()

	require.Error(t, i.load(smallest+"OTHER {\n\tpay_offer {\n\t\tbase_url {env.OFFER_TEST_NOTHING}\n\t\tcard https://checkout.example/pay\n\t}\n}\n"))

	require.Same(t, app, activeApp())
	require.Equal(t, http.StatusPaymentRequired, i.get(i.service+"/v1/quote").status)
	require.Equal(t, http.StatusOK, i.get(i.service+"/v1/received").status)
}

// A start that fails must not close or keep what the running configuration
// uses.
func TestFailedStartUndoesItsOwnWork(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	app, held := activeApp(), outliving.Len()
	blocked := filepath.Join(i.folder, "blocked")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	unusable := filepath.Join(blocked, "ledger.db")

	err := loadCaddyfile(t, strings.Replace(i.caddyfile(smallest), i.ledgerPath(), unusable, 1))
	require.ErrorContains(t, err, unusable)

	require.Same(t, app, activeApp())
	require.NoError(t, outliving.Wait(t.Context()))
	require.Equal(t, held, outliving.Len())
	i.untilReceived()
}

func TestStopEndsAllBackgroundWorkAndClosesTheLedger(t *testing.T) {
	i := newInstance(t)
	_, _, release := standInRate(t)
	require.NoError(t, i.load(withBitcoin))
	book := activeApp().share.Ledger
	for len(ourGoroutines()) == 0 {
		runtime.Gosched() // until the first of them runs
	}

	require.NoError(t, caddy.Stop())
	release()

	require.NoError(t, outliving.Wait(t.Context()))
	require.Equal(t, i.held, outliving.Len())
	require.ErrorIs(t, errorOf(book.Totals(t.Context(), "any")), ledger.ErrNotOpen)
	require.Nil(t, activeApp())
	require.Empty(t, ourGoroutines())
}

// ourGoroutines are the stacks of goroutines that this module started in the
// background. None may be left when everything has ended.
func ourGoroutines() []string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var ours []string
	for _, stack := range strings.Split(string(stacks), "\n\n") {
		_, start, _ := strings.Cut(stack, "created by ")
		if strings.Contains(stack, "caddy-pay-offer/payoffer") && !strings.Contains(stack, "testing.tRunner") && !strings.Contains(start, "testing") && !strings.Contains(start, "payoffertest") {
			ours = append(ours, stack)
		}
	}
	return ours
}

func TestValidateDoesNoIO(t *testing.T) {
	i := newInstance(t)
	config := must(adapt(t, i.caddyfile(smallest)))(t)

	require.NoError(t, caddy.Validate(decode(t, config)))

	require.NoFileExists(t, i.ledgerPath())
	require.NoDirExists(t, filepath.Dir(i.ledgerPath()))
	require.NoDirExists(t, filepath.Join(i.folder, "storage", "pay_offer"))
	require.NoError(t, outliving.Wait(t.Context()))
	require.Equal(t, i.held, outliving.Len())
}

// A configuration that is loaded and whose app has not started yet answers
// everything but what needs the ledger.
func TestOfferIsServedBeforeTheLedgerIsOpen(t *testing.T) {
	i := newInstance(t)
	app := i.provision(smallest)
	require.NoError(t, app.Acquire())
	svc := app.running()[0]

	require.Equal(t, http.StatusPaymentRequired, serve(t, svc, "/v1/quote").Code)
	ctx, leave := context.WithCancel(t.Context())
	leave() // a client that waits is answered later
	received := httptest.NewRecorder()
	require.True(t, svc.Server.Serve(received, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/received", nil)))
	require.Equal(t, http.StatusServiceUnavailable, received.Code)
	require.NotEmpty(t, received.Header().Get("Retry-After"))
}
