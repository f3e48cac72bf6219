package payoffer

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// While configurations change, no request gets another answer than the offer's.
// A new connection may be reset by the kernel while Caddy hands its listener
// over, with any handler; clients try that again.
func TestReloadUnderTrafficFailsNoRequest(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
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
	for range 10 {
		before := right.Load()
		require.NoError(t, i.load(smallest))
		for right.Load() == before {
			runtime.Gosched() // every configuration answers
		}
	}
	stop.Store(true)
	clients.Wait()
	require.Zero(t, wrong.Load())
	require.NotContains(t, i.log(), "panic")
}

// Caddy does not wait for running requests when it replaces a configuration:
// what they use must outlast it.
func TestRequestThatRunsDuringAReloadIsAnswered(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	old := running.newest().offers()[0]

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

func TestReloadKeepsTheOpenLedgerAndTheRate(t *testing.T) {
	i := newInstance(t)
	standInRate(t)
	require.NoError(t, i.load(withBitcoin))
	before := running.newest().offers()[0]
	given := i.get(i.service + "/v1/pay/usdc.png").header.Get("Location")

	require.NoError(t, i.load(withBitcoin))

	after := running.newest().offers()[0]
	require.NotSame(t, before, after)
	require.Same(t, before.ledger.pooledLedger, after.ledger.pooledLedger)
	require.Same(t, before.watcher, after.watcher)
	require.Equal(t, http.StatusOK, i.get(i.service+"/v1/pay/btc.uri").status)
	require.Equal(t, http.StatusOK, i.get(resolve(t, i.service, given)).status)
	require.Equal(t, http.StatusOK, i.get(i.service+"/v1/received").status)
}

func TestFailedReloadLeavesTheOldOfferRunning(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	app := running.newest()

	require.Error(t, i.load(smallest+"OTHER {\n\tpay_offer {\n\t\tbase_url {env.OFFER_TEST_NOTHING}\n\t\tcard https://checkout.example/pay\n\t}\n}\n"))

	require.Same(t, app, running.newest())
	require.Equal(t, http.StatusPaymentRequired, i.get(i.service+"/v1/quote").status)
	require.Equal(t, http.StatusOK, i.get(i.service+"/v1/received").status)
}

// A start that fails must not close or keep what the running configuration
// uses.
func TestFailedStartUndoesItsOwnWork(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	app := running.newest()
	blocked := filepath.Join(i.folder, "blocked")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	unusable := filepath.Join(blocked, "ledger.db")
	config, err := adapt(t, strings.Replace(i.caddyfile(smallest), i.ledgerPath(), unusable, 1))
	require.NoError(t, err)

	require.ErrorContains(t, caddy.Load([]byte(config), true), unusable)

	require.Same(t, app, running.newest())
	_, held := ledgers.References(driverSQLite + " " + unusable)
	require.False(t, held)
	require.Equal(t, http.StatusOK, i.get(i.service+"/v1/received").status)
}

func TestStopEndsAllBackgroundWorkAndClosesTheLedger(t *testing.T) {
	i := newInstance(t)
	_, release := standInRate(t)
	require.NoError(t, i.load(withBitcoin))
	for len(ourGoroutines()) == 0 {
		runtime.Gosched() // until the first of them runs
	}

	require.NoError(t, caddy.Stop())

	_, held := ledgers.References(driverSQLite + " " + i.ledgerPath())
	require.False(t, held)
	require.Nil(t, running.newest())
	release()
	require.Empty(t, ourGoroutines())
}

// waiting is payments with a settlement under way while Wait runs.
type waiting struct {
	payments
	wait func()
}

func (w waiting) Wait(ctx context.Context) error {
	w.wait()
	return w.payments.Wait(ctx)
}

// The outcome of a settlement under way is recorded before the ledger closes.
func TestSettlementsUnderWayEndBeforeTheLedgerCloses(t *testing.T) {
	i := newInstance(t)
	app, svc := i.provision()
	require.NoError(t, svc.ledger.Open(t.Context()))
	waited := false
	svc.payments = waiting{svc.payments, func() {
		waited = true
		_, err := svc.ledger.Totals(context.Background(), svc.offer.ID)
		require.NoError(t, err)
	}}

	require.NoError(t, app.release(svc))

	require.True(t, waited)
	_, err := svc.ledger.Totals(t.Context(), svc.offer.ID)
	require.ErrorIs(t, err, ledger.ErrNotOpen)
}

// A new rate is in the next answer, without a request having waited for it.
func TestNewRateChangesWhatIsServed(t *testing.T) {
	i := newInstance(t)
	prices, _ := standInRate(t)
	require.NoError(t, i.load(withBitcoin))
	before := i.get(i.service + "/v1/pay/btc.uri")
	require.Contains(t, before.body, "amount=0.00046667") // 42 USD at 90000

	prices.Set("mempool", payoffertest.PriceReply{Price: "84000"})
	running.newest().offers()[0].watcher.Refresh(t.Context())

	require.Contains(t, i.get(i.service+"/v1/pay/btc.uri").body, "amount=0.0005&")
}

// ourGoroutines are the stacks of goroutines that this module started in the
// background. Stop waits for them, so that none may be left when it returned.
func ourGoroutines() []string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var ours []string
	for _, stack := range strings.Split(string(stacks), "\n\n") {
		_, start, _ := strings.Cut(stack, "created by ")
		if strings.Contains(stack, "sync.(*WaitGroup).Go") && strings.Contains(stack, "caddy-pay-offer/payoffer") && !strings.Contains(start, "testing") {
			ours = append(ours, stack)
		}
	}
	return ours
}

func TestValidateDoesNoIO(t *testing.T) {
	i := newInstance(t)
	config, err := adapt(t, i.caddyfile(smallest))
	require.NoError(t, err)

	require.NoError(t, caddy.Validate(decode(t, config)))

	require.NoFileExists(t, i.ledgerPath())
	require.NoDirExists(t, filepath.Dir(i.ledgerPath()))
	require.NoDirExists(t, filepath.Join(i.folder, "storage", "pay_offer"))
	_, held := ledgers.References(driverSQLite + " " + i.ledgerPath())
	require.False(t, held)
}

// A configuration that is loaded and whose app has not started yet answers
// everything but what needs the ledger.
func TestOfferIsServedBeforeTheLedgerIsOpen(t *testing.T) {
	i := newInstance(t)
	app, svc := i.provision()
	defer func() { require.NoError(t, app.release(svc)) }()

	require.Equal(t, http.StatusPaymentRequired, serve(t, svc, "/v1/quote").Code)
	received := serve(t, svc, "/v1/received")
	require.Equal(t, http.StatusServiceUnavailable, received.Code)
	require.NotEmpty(t, received.Header().Get("Retry-After"))
}
