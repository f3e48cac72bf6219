package rate

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func TestNewRefusesMistakesAndSaysWhatIsKnown(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		want []string
	}{
		{"unknown source", Config{Sources: []string{"kraken", "gdax"}}, []string{`"gdax"`, "mempool, coinbase, kraken, bitstamp"}},
		{"duplicate source", Config{Sources: []string{"kraken", "kraken"}}, []string{`"kraken" is named twice`}},
		{"unknown endpoint", Config{Endpoints: map[string]string{"gdax": "http://localhost"}}, []string{`"gdax"`, "mempool, coinbase, kraken, bitstamp"}},
		{"relative endpoint", Config{Endpoints: map[string]string{"kraken": "/api"}}, []string{"endpoint", "kraken"}},
		{"endpoint of another scheme", Config{Endpoints: map[string]string{"kraken": "ftp://x"}}, []string{"endpoint", "kraken"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(c.cfg)
			for _, part := range c.want {
				require.ErrorContains(t, err, part)
			}
		})
	}
}

func TestErrorsDoNotRepeatAnEndpoint(t *testing.T) {
	_, err := New(Config{Endpoints: map[string]string{"kraken": "ftp://user:secret@host/key"}})
	require.ErrorContains(t, err, "kraken")
	require.NotContains(t, err.Error(), "secret")
	require.NotContains(t, err.Error(), "key")
}

func TestAnUnreachableSourceIsLoggedOnceAndWhenItIsBack(t *testing.T) {
	b := newBench(t)
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, dead.Close())
	endpoints := b.prices.Endpoints()
	endpoints["mempool"] = "http://user:secret@" + dead.Addr().String() + "/hidden?key=secret"
	b.configure(t, Config{Endpoints: endpoints})

	for range 10 {
		b.refresh(t)
		b.clock.pass(5 * time.Minute)
	}
	require.Equal(t, 1, b.logged("source=mempool"))
	require.Equal(t, 1, b.logged("level=WARN"))
	require.Equal(t, 1, b.logged("host="+dead.Addr().String()+" reason=unreachable"))
	require.NotContains(t, b.log.String(), "secret")
	require.NotContains(t, b.log.String(), "hidden")
}

func TestUpstreamTextIsNeverLogged(t *testing.T) {
	b := newBench(t)
	b.prices.SetAll(payoffertest.PriceReply{Status: 400, Body: "injected text"})
	b.prices.Set("kraken", payoffertest.PriceReply{KrakenError: "EGeneral:injected text"})
	b.refresh(t)
	require.Equal(t, 4, b.logged("level=WARN"))
	require.NotContains(t, b.log.String(), "injected")
}

func TestASourceIsBackAfterTenGoodMinutes(t *testing.T) {
	b := newBench(t)
	stale := payoffertest.PriceReply{Price: "90000", Age: 5*time.Minute + time.Second}
	fresh := payoffertest.PriceReply{Price: "90000"}
	for range 3 { // on the edge of staleness
		b.prices.Set("mempool", stale)
		b.refresh(t)
		b.clock.pass(time.Minute)
		b.prices.Set("mempool", fresh)
		b.refresh(t)
		b.clock.pass(time.Minute)
	}
	require.Equal(t, 1, b.logged("source=mempool"))
	require.Equal(t, 1, b.logged("reason=stale"))
	rate, _ := b.Current()
	require.Contains(t, rate.Sources, "mempool", "its good answers count meanwhile")

	for range 9 {
		b.refresh(t)
		b.clock.pass(time.Minute)
	}
	require.Zero(t, b.logged("usable again"))
	b.refresh(t)
	require.Equal(t, 1, b.logged(`level=INFO msg="bitcoin price source is usable again" source=mempool`))
}

func TestAFailingSourceIsAskedLessAndLess(t *testing.T) {
	b := newBench(t)
	b.prices.Set("kraken", payoffertest.PriceReply{Status: 429, Body: "slow down"})
	var asked []int // minutes
	for minute := range 20 {
		before := b.prices.Requests("kraken")
		b.refresh(t)
		if b.prices.Requests("kraken") > before {
			asked = append(asked, minute)
		}
		b.clock.pass(time.Minute)
	}
	require.Equal(t, []int{0, 1, 3, 7, 12, 17}, asked)
	require.Equal(t, 20, b.prices.Requests("coinbase"))
}

func TestAStaleSourceIsAskedEveryRound(t *testing.T) {
	b := newBench(t)
	b.prices.Set("mempool", payoffertest.PriceReply{Price: "90000", Age: time.Hour})
	for range 6 {
		b.refresh(t)
		b.clock.pass(time.Minute)
	}
	require.Equal(t, 6, b.prices.Requests("mempool"), "its next update may come any minute")
}

func TestAnOutlierIsNotClearedByADisagreement(t *testing.T) {
	b := newBench(t)
	b.prices.Set("kraken", payoffertest.PriceReply{Price: "900000"})
	b.refresh(t)
	b.prices.Set("mempool", payoffertest.PriceReply{Price: "80000"})
	b.prices.Set("bitstamp", payoffertest.PriceReply{Price: "70000"})
	for range 20 {
		b.clock.pass(time.Minute)
		b.refresh(t)
	}
	require.Equal(t, 1, b.logged("bitcoin price sources disagree"))
	require.Zero(t, b.logged("usable again"))
}

func TestRandomnessShortensAPauseByAtMostAFifth(t *testing.T) {
	f := &feed{failures: 20}
	f.schedule(reasonTimeout, sampleTime, 0)
	require.Equal(t, sampleTime.Add(5*time.Minute), f.due)
	f.schedule(reasonTimeout, sampleTime, 0.5)
	require.Equal(t, sampleTime.Add(270*time.Second), f.due)
}

func TestWhenOneSourceIsBackTheOthersAreAskedAgain(t *testing.T) {
	b := newBench(t)
	b.prices.SetAll(payoffertest.PriceReply{Status: 500, Body: "x"})
	for range 8 { // all are paused now, for minutes 7 to 12
		b.refresh(t)
		b.clock.pass(time.Minute)
	}
	b.prices.SetAll(payoffertest.PriceReply{Price: "90000"})
	b.feeds[0].due = time.Time{} // chance let one be asked earlier
	require.Zero(t, b.refresh(t))
	b.clock.pass(time.Minute)
	require.EqualValues(t, 90_000, b.refresh(t))
}
