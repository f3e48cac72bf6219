package rate

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// bench is a Watcher of fake sources, its log, and how often its listener was called.
type bench struct {
	*Watcher
	clock   *payoffertest.Clock
	prices  *payoffertest.Prices
	log     bytes.Buffer
	changes int
}

func newBench(t *testing.T, sources ...string) *bench {
	t.Helper()
	b := &bench{clock: payoffertest.NewClock(sampleTime)}
	b.prices = payoffertest.NewPrices(t, b.clock.Now)
	w, err := New(Config{
		Sources: sources, Transport: b.prices, Now: b.clock.Now, Random: func() float64 { return 0 },
		Logger: slog.New(slog.NewTextHandler(&b.log, nil)),
	})
	require.NoError(t, err)
	b.Watcher = w
	b.Listen(func() { b.changes++ })
	return b
}

// refresh polls once and returns the price in whole USD, 0 for none.
func (b *bench) refresh(t *testing.T) int64 {
	t.Helper()
	b.Refresh(t.Context())
	return b.price()
}

func (b *bench) price() int64 {
	current, _ := b.Current()
	return current.MicroUSD / microUSDPerUSD
}

func (b *bench) logged(part string) int { return strings.Count(b.log.String(), part) }

var down = payoffertest.PriceReply{Status: http.StatusInternalServerError, Body: "injected text"}

func TestPriceUsesAllSources(t *testing.T) {
	b := newBench(t)
	b.prices.Set("coinbase", payoffertest.PriceReply{Price: "90100.12"})
	b.prices.Set("kraken", payoffertest.PriceReply{Price: "90050.07"})
	b.Refresh(t.Context())
	current, ok := b.Current()
	require.True(t, ok)
	require.Equal(t, Rate{MicroUSD: 90_025_035_000, At: sampleTime}, current)
	require.Zero(t, b.logged("level=WARN"))
}

func TestSingleSourceIsEnough(t *testing.T) {
	b := newBench(t, "kraken")
	require.EqualValues(t, 90_000, b.refresh(t))
	require.Zero(t, b.prices.Requests("mempool"))
}

func TestUnknownSourceIsRefused(t *testing.T) {
	_, err := New(Config{Sources: []string{"kraken", "gdax"}})
	require.ErrorContains(t, err, `"gdax"`)
	require.ErrorContains(t, err, "mempool, coinbase, kraken, bitstamp")
	_, err = Check(t.Context(), []string{"gdax"}, nil)
	require.ErrorContains(t, err, `"gdax"`)
}

func TestNoPriceLogsEachAnswer(t *testing.T) {
	b := newBench(t)
	b.prices.SetAll(down)
	b.prices.Set("kraken", payoffertest.PriceReply{KrakenError: "EGeneral:injected text"})
	b.prices.Set("mempool", payoffertest.PriceReply{Price: "90000"})
	for range 3 {
		require.Zero(t, b.refresh(t))
	}
	require.Equal(t, 1, b.logged("level=WARN"))
	require.Equal(t, 1, b.logged(`reason="too few answers" answers="[mempool: 90000.00 USD coinbase: unreachable kraken: bad_answer bitstamp: unreachable]"`))
	require.NotContains(t, b.log.String(), "injected")

	b.prices.Set("coinbase", payoffertest.PriceReply{Price: "50000.5"})
	require.Zero(t, b.refresh(t))
	require.Equal(t, 1, b.logged(`reason="prices disagree" answers="[mempool: 90000.00 USD coinbase: 50000.50 USD`))

	b.prices.SetAll(payoffertest.PriceReply{Price: "90000"})
	require.EqualValues(t, 90_000, b.refresh(t))
	require.Equal(t, 1, b.logged(`level=INFO msg="the bitcoin price is available"`))
}

func TestPriceExpiresAfterTenMinutes(t *testing.T) {
	b := newBench(t)
	b.refresh(t)
	b.prices.SetAll(down)
	b.clock.Pass(10 * time.Minute)
	require.EqualValues(t, 90_000, b.refresh(t))
	require.Equal(t, 1, b.changes)
	require.Zero(t, b.logged("level=WARN"))

	b.clock.Pass(time.Second)
	require.Zero(t, b.price(), "Current expires without a poll")
	b.refresh(t)
	b.refresh(t)
	require.Equal(t, 2, b.changes, "the expiry, once")
	require.Equal(t, 1, b.logged("level=WARN"))

	b.prices.SetAll(payoffertest.PriceReply{Price: "90000"})
	require.EqualValues(t, 90_000, b.refresh(t))
	require.Equal(t, 3, b.changes)
}

func TestPriceExpiresAfterClockSetback(t *testing.T) {
	b := newBench(t)
	b.refresh(t)
	b.clock.Pass(-time.Hour)
	require.Zero(t, b.price())
}

func TestPriceAgeUsesWallClock(t *testing.T) {
	b := newBench(t)
	b.clock.Set(time.Now())
	b.refresh(t)
	current, ok := b.Current()
	require.True(t, ok)
	require.Equal(t, current.At.Round(0), current.At, "a monotonic clock stands still while a computer sleeps")
}

func TestSourceRetryAfterIsHonored(t *testing.T) {
	b := newBench(t)
	refuses := true
	b.client.Transport = transport(func(r *http.Request) (*http.Response, error) {
		answer, err := b.prices.RoundTrip(r)
		if refuses && r.URL.Host == "api.kraken.com" {
			answer.StatusCode, answer.Header = http.StatusTooManyRequests, http.Header{"Retry-After": {"150"}}
		}
		return answer, err
	})
	require.EqualValues(t, 90_000, b.refresh(t))
	refuses = false
	for range 5 {
		b.clock.Pass(time.Minute)
		require.EqualValues(t, 90_000, b.refresh(t))
	}
	require.Equal(t, 4, b.prices.Requests("kraken"), "not after 1 and 2 minutes")
	require.Equal(t, 6, b.prices.Requests("mempool"))
}

func TestOversizedAnswerIsRefused(t *testing.T) {
	b := newBench(t, "coinbase")
	body := `{"data":{"amount":"90000","base":"BTC","currency":"USD"}}`
	b.prices.Set("coinbase", payoffertest.PriceReply{Body: body + strings.Repeat(" ", maxBody-len(body)+1)})
	require.Zero(t, b.refresh(t))
	b.prices.Set("coinbase", payoffertest.PriceReply{Body: body + strings.Repeat(" ", maxBody-len(body))})
	require.EqualValues(t, 90_000, b.refresh(t))
}

func TestCheckReportsFailingSource(t *testing.T) {
	prices := payoffertest.NewPrices(t, time.Now)
	prices.Set("mempool", payoffertest.PriceReply{Price: "90000", Age: time.Hour})
	prices.Set("kraken", payoffertest.PriceReply{Price: "90000", Status: http.StatusForbidden})
	answers, err := Check(t.Context(), nil, prices)
	require.NoError(t, err)
	reasons := map[string]string{}
	for _, a := range answers {
		reasons[a.Source] = a.Reason
	}
	require.Equal(t, map[string]string{"mempool": "stale", "coinbase": "", "kraken": "unauthorized", "bitstamp": ""}, reasons)

	prices.SetAll(payoffertest.PriceReply{Price: "90000"})
	prices.Set("bitstamp", payoffertest.PriceReply{Price: "45000"})
	answers, err = Check(t.Context(), nil, prices)
	require.NoError(t, err)
	require.Equal(t, "disagree", answers[3].Reason)
	require.Empty(t, answers[0].Reason)
}

// transport answers requests without a network, so that time can be simulated.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func TestRunPollsAndReportsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dead atomic.Bool
		begin, changes := time.Now(), []time.Duration(nil)
		w, err := New(Config{
			Sources: []string{"coinbase"}, Random: func() float64 { return 0 },
			Transport: transport(func(*http.Request) (*http.Response, error) {
				if dead.Load() {
					return nil, io.ErrUnexpectedEOF
				}
				body := `{"data":{"amount":"90000","base":"BTC","currency":"USD"}}`
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil
			}),
		})
		require.NoError(t, err)
		w.Listen(func() { changes = append(changes, time.Since(begin)) })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			w.Run(ctx)
			close(ended)
		}()
		time.Sleep(90 * time.Second)
		dead.Store(true)
		time.Sleep(20 * time.Minute)
		cancel()
		<-ended
		require.Equal(t, []time.Duration{0, time.Minute, 11*time.Minute + time.Nanosecond}, changes)
	})
}

func TestSourceTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := New(Config{Transport: transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		require.NoError(t, err)
		begin := time.Now()
		w.Refresh(t.Context())
		require.Equal(t, fetchTimeout, time.Since(begin), "all sources at the same time")
	})
}
