package rate

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// clock is a time that only a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// bench is a watcher of stand-in sources, and what it said.
type bench struct {
	*Watcher
	clock   *clock
	prices  *payoffertest.Prices
	log     *bytes.Buffer
	changes int
}

func newBench(t *testing.T, sources ...string) *bench {
	t.Helper()
	b := &bench{clock: &clock{now: sampleTime}, log: &bytes.Buffer{}}
	b.prices = payoffertest.NewPrices(t, b.clock.Now)
	b.configure(t, Config{Sources: sources, Endpoints: b.prices.Endpoints(), Transport: b.prices.Client().Transport})
	return b
}

func (b *bench) configure(t *testing.T, cfg Config) {
	t.Helper()
	cfg.Now = b.clock.Now
	cfg.Random = func() float64 { return 0 }
	cfg.Logger = slog.New(slog.NewTextHandler(b.log, nil))
	var err error
	b.Watcher, err = New(cfg)
	require.NoError(t, err)
	b.Listen(func() { b.changes++ })
}

// refresh runs a round and returns the price in whole USD, 0 for none.
func (b *bench) refresh(t *testing.T) int64 {
	t.Helper()
	b.Refresh(t.Context())
	return b.price()
}

func (b *bench) price() int64 {
	rate, _ := b.Current()
	return rate.MicroUSD / microUSDPerUSD
}

func (b *bench) logged(part string) int { return strings.Count(b.log.String(), part) }

func TestRateIsTheMedianOfAllSources(t *testing.T) {
	b := newBench(t)
	b.prices.Set("coinbase", payoffertest.PriceReply{Price: "90100.12"})
	b.prices.Set("kraken", payoffertest.PriceReply{Price: "90050.07"})
	b.Refresh(t.Context())
	rate, ok := b.Current()
	require.True(t, ok)
	require.Equal(t, Rate{
		MicroUSD: 90_025_035_000,
		At:       sampleTime,
		Sources:  []string{"bitstamp", "coinbase", "kraken", "mempool"},
	}, rate)
	require.Zero(t, b.logged("level=WARN"))
}

func TestOneLiarOfFourChangesNothing(t *testing.T) {
	for _, lie := range []string{"900000", "9000"} {
		b := newBench(t)
		b.prices.Set("bitstamp", payoffertest.PriceReply{Price: lie})
		require.EqualValues(t, 90_000, b.refresh(t))
		require.Equal(t, 1, b.logged("source=bitstamp"))
		require.Equal(t, 1, b.logged("reason=outlier"))
	}
}

func TestOneDeadSourceOfFourLeavesARate(t *testing.T) {
	b := newBench(t)
	b.prices.Set("mempool", payoffertest.PriceReply{Price: "90000", Status: http.StatusServiceUnavailable})
	require.EqualValues(t, 90_000, b.refresh(t))
	rate, _ := b.Current()
	require.Equal(t, []string{"bitstamp", "coinbase", "kraken"}, rate.Sources)
	require.Equal(t, 1, b.logged("reason=status_503"))

	b.prices.Set("kraken", payoffertest.PriceReply{KrakenError: "EGeneral:Temporary lockout"})
	b.clock.pass(maxAge + time.Second)
	require.Zero(t, b.refresh(t), "two of four are not believed")
	require.Equal(t, 1, b.logged("reason=refused"))
	require.Zero(t, b.logged("disagree"), "those that answer do not")
}

func TestNoRateWithoutAgreement(t *testing.T) {
	for name, script := range map[string]func(*payoffertest.Prices){
		"all dead":    func(p *payoffertest.Prices) { p.SetAll(payoffertest.PriceReply{Status: 500, Body: "x"}) },
		"all broken":  func(p *payoffertest.Prices) { p.SetAll(payoffertest.PriceReply{Body: `{"time":`}) },
		"all without": func(p *payoffertest.Prices) { p.SetAll(payoffertest.PriceReply{Price: "-1"}) },
		"only one alive": func(p *payoffertest.Prices) {
			p.SetAll(payoffertest.PriceReply{Status: 500, Body: "x"})
			p.Set("kraken", payoffertest.PriceReply{Price: "90000"})
		},
		"all disagree": func(p *payoffertest.Prices) {
			p.Set("mempool", payoffertest.PriceReply{Price: "80000"})
			p.Set("kraken", payoffertest.PriceReply{Price: "85000"})
			p.Set("bitstamp", payoffertest.PriceReply{Price: "95000"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			script(b.prices)
			b.Refresh(t.Context())
			rate, ok := b.Current()
			require.False(t, ok)
			require.Zero(t, rate)
			require.Zero(t, b.changes)
		})
	}
}

func TestASingleConfiguredSourceIsEnough(t *testing.T) {
	b := newBench(t, "kraken")
	require.EqualValues(t, 90_000, b.refresh(t))
	rate, _ := b.Current()
	require.Equal(t, []string{"kraken"}, rate.Sources)
	require.Zero(t, b.prices.Requests("mempool"))
}

func TestTheLastGoodRateLivesTenMinutes(t *testing.T) {
	b := newBench(t)
	b.refresh(t)
	b.prices.SetAll(payoffertest.PriceReply{Status: 500, Body: "x"})

	b.clock.pass(10 * time.Minute)
	require.EqualValues(t, 90_000, b.refresh(t))
	require.Equal(t, 1, b.changes)

	b.clock.pass(time.Second)
	require.Zero(t, b.price(), "Current expires without a round")
	b.refresh(t)
	require.Equal(t, 2, b.changes, "the expiry is announced")
	require.Equal(t, 1, b.logged("bitcoin price expired"))

	b.prices.SetAll(payoffertest.PriceReply{Price: "90000"})
	b.clock.pass(5 * time.Minute)
	require.EqualValues(t, 90_000, b.refresh(t))
	require.Equal(t, 3, b.changes, "so is the same price when it comes back")
}

func TestAClockSetBackDoesNotKeepARateAlive(t *testing.T) {
	b := newBench(t)
	b.refresh(t)
	b.clock.pass(-30 * time.Second)
	require.EqualValues(t, 90_000, b.price())
	b.clock.pass(-time.Hour)
	require.Zero(t, b.price())
}

func TestTheAgeOfARateIsByTheWallClock(t *testing.T) {
	b := newBench(t)
	b.clock.now = time.Now()
	b.refresh(t)
	rate, ok := b.Current()
	require.True(t, ok)
	require.Equal(t, rate.At.Round(0), rate.At, "a monotonic clock stands still while a computer sleeps")
}

func TestACallerCannotChangeTheRate(t *testing.T) {
	b := newBench(t)
	b.refresh(t)
	rate, _ := b.Current()
	rate.Sources[0] = "changed"
	rate, _ = b.Current()
	require.Equal(t, "bitstamp", rate.Sources[0])
}

func TestASmallMoveNeedsTwoSources(t *testing.T) {
	b := newBench(t, "kraken", "coinbase")
	b.refresh(t)
	b.prices.SetAll(payoffertest.PriceReply{Price: "108000"})
	require.EqualValues(t, 108_000, b.refresh(t))
}

func TestListenersAreToldOfChangesOnly(t *testing.T) {
	b := newBench(t)
	b.refresh(t)
	require.Equal(t, 1, b.changes)

	b.clock.pass(time.Minute)
	b.refresh(t)
	require.Equal(t, 1, b.changes, "confirmed, not changed")
	rate, _ := b.Current()
	require.Equal(t, sampleTime.Add(time.Minute), rate.At, "but younger")

	b.prices.SetAll(payoffertest.PriceReply{Price: "90001"})
	b.refresh(t)
	require.Equal(t, 2, b.changes)

	b.prices.Set("kraken", payoffertest.PriceReply{Status: 500, Body: "x"})
	b.refresh(t)
	require.Equal(t, 3, b.changes, "the same price on the word of fewer sources")
}

func TestASlowSourceDelaysNobody(t *testing.T) {
	b := newBench(t)
	b.refresh(t)
	b.prices.Set("kraken", payoffertest.PriceReply{Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		b.Refresh(ctx)
		close(done)
	}()
	b.prices.Await("kraken", 2)
	require.EqualValues(t, 90_000, b.price(), "answered while the round is under way")
	cancel()
	<-done
	require.Zero(t, b.logged("source=kraken"), "a round that was given up blames nobody")
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	reached := false
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer target.Close()
	door := httptest.NewServer(http.RedirectHandler(target.URL, http.StatusFound))
	defer door.Close()
	b := newBench(t)
	b.configure(t, Config{Sources: []string{"kraken"}, Endpoints: map[string]string{"kraken": door.URL}})
	require.Zero(t, b.refresh(t))
	require.False(t, reached)
	require.Equal(t, 1, b.logged("reason=status_302"))
}

func TestHugeAnswersAreCutOff(t *testing.T) {
	b := newBench(t, "coinbase")
	body := `{"data":{"amount":"90000","base":"BTC","currency":"USD"}}`
	b.prices.Set("coinbase", payoffertest.PriceReply{Body: body + strings.Repeat(" ", maxBody-len(body))})
	require.EqualValues(t, 90_000, b.refresh(t))
	b.prices.Set("coinbase", payoffertest.PriceReply{Body: body + strings.Repeat(" ", maxBody-len(body)+1)})
	b.refresh(t)
	require.Equal(t, 1, b.logged("reason=too_large"))
}

func TestConcurrentUse(t *testing.T) {
	b := newBench(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { b.Refresh(t.Context()) })
		wg.Go(func() {
			if rate, ok := b.Current(); ok {
				rate.Sources[0] = "a copy"
			}
		})
	}
	wg.Wait()
	rate, ok := b.Current()
	require.True(t, ok)
	require.Equal(t, []string{"bitstamp", "coinbase", "kraken", "mempool"}, rate.Sources)
	require.Equal(t, 1, b.changes)
}
