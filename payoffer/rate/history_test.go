package rate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// pastHour is when an hour began, before sampleTime.
var pastHour = time.Unix(1_795_248_000, 0).UTC()

// dated has the price change each hour, and the sources differ by some dollars.
func dated(cents string) payoffertest.PriceReply {
	return payoffertest.PriceReply{Price: "90000", Past: func(hour time.Time) string {
		return fmt.Sprintf("%d%s", 80_000+(hour.Unix()/3600)%1000, cents)
	}}
}

func TestAPastPriceIsThatOfTheHourAndAskedForOnce(t *testing.T) {
	b := newBench(t)
	b.clock.pass(1000 * time.Hour)
	for i, source := range []string{"mempool", "coinbase", "kraken", "bitstamp"} {
		b.prices.Set(source, dated(fmt.Sprintf(".%d1", i)))
	}
	want := 80_000 + (pastHour.Unix()/3600)%1000
	for _, at := range []time.Time{pastHour, pastHour.Add(time.Minute), pastHour.Add(time.Hour - time.Second), pastHour.In(time.FixedZone("", 5*3600+1800))} {
		past, known := b.At(t.Context(), at)
		require.True(t, known)
		require.Equal(t, Rate{MicroUSD: want*microUSDPerUSD + 310_000, At: pastHour, Sources: []string{"bitstamp", "coinbase", "kraken", "mempool"}}, past)
		past.Sources[0] = "changed"
	}
	for _, source := range []string{"mempool", "coinbase", "kraken", "bitstamp"} {
		require.Equal(t, 1, b.prices.PastRequests(source))
		require.Zero(t, b.prices.Requests(source))
	}
	next, known := b.At(t.Context(), pastHour.Add(time.Hour))
	require.True(t, known)
	require.Equal(t, (want+1)*microUSDPerUSD+310_000, next.MicroUSD)
	_, known = b.Current()
	require.False(t, known, "the price of now is another matter")
}

// A restored ledger asks again, on another day, when other sources answer.
func TestAPastPriceIsTheSameWhenOthersAnswer(t *testing.T) {
	want := make(map[int64]bool)
	for _, dead := range [][]string{nil, {"mempool"}, {"coinbase"}, {"kraken"}} {
		b := newBench(t)
		for i, source := range []string{"mempool", "coinbase", "kraken", "bitstamp"} {
			b.prices.Set(source, dated(fmt.Sprintf(".%d1", i)))
		}
		for _, source := range dead {
			b.prices.Set(source, payoffertest.PriceReply{Status: 500, Body: "x"})
		}
		past, known := b.At(t.Context(), pastHour)
		require.True(t, known, dead)
		want[past.MicroUSD] = true
	}
	require.Len(t, want, 1)
}

func TestAPastPriceNeedsAnAgreement(t *testing.T) {
	for name, script := range map[string]func(*payoffertest.Prices){
		"all dead": func(p *payoffertest.Prices) { p.SetAll(payoffertest.PriceReply{Status: 500, Body: "x"}) },
		"none has the hour": func(p *payoffertest.Prices) {
			p.SetAll(payoffertest.PriceReply{Past: func(time.Time) string { return "" }})
		},
		"only one alive": func(p *payoffertest.Prices) {
			p.SetAll(payoffertest.PriceReply{Status: 500, Body: "x"})
			p.Set("kraken", payoffertest.PriceReply{Price: "90000"})
		},
		"only two alive": func(p *payoffertest.Prices) {
			p.Set("mempool", payoffertest.PriceReply{Status: 500, Body: "x"})
			p.Set("bitstamp", payoffertest.PriceReply{Status: 500, Body: "x"})
		},
		"two against two": func(p *payoffertest.Prices) {
			p.Set("kraken", payoffertest.PriceReply{Price: "95000"})
			p.Set("mempool", payoffertest.PriceReply{Price: "95000"})
		},
		"all say nonsense": func(p *payoffertest.Prices) { p.SetAll(payoffertest.PriceReply{Price: "-1"}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			script(b.prices)
			_, known := b.At(t.Context(), pastHour)
			require.False(t, known)
			require.Equal(t, 1, b.logged("price of a past hour is not known"))
			asked := b.prices.PastRequests("kraken")

			b.prices.SetAll(payoffertest.PriceReply{Price: "88000"})
			b.clock.pass(historyPause - time.Second)
			_, known = b.At(t.Context(), pastHour)
			require.False(t, known, "it is not asked all the time")
			require.Equal(t, asked, b.prices.PastRequests("kraken"))
			b.clock.pass(time.Second)
			past, known := b.At(t.Context(), pastHour)
			require.True(t, known)
			require.EqualValues(t, int64(88_000*microUSDPerUSD), past.MicroUSD)
		})
	}
}

func TestALiarMovesNoPastPrice(t *testing.T) {
	for _, liar := range []string{"mempool", "coinbase", "kraken", "bitstamp"} {
		b := newBench(t)
		b.prices.Set(liar, payoffertest.PriceReply{Price: "9000"})
		past, known := b.At(t.Context(), pastHour)
		require.True(t, known)
		require.EqualValues(t, int64(90_000*microUSDPerUSD), past.MicroUSD, liar)
	}
}

func TestTheOnlySourceTellsPastPrices(t *testing.T) {
	for _, source := range []string{"mempool", "coinbase", "kraken", "bitstamp"} {
		b := newBench(t, source)
		past, known := b.At(t.Context(), pastHour)
		require.True(t, known, source)
		require.Equal(t, []string{source}, past.Sources)
	}
}

func TestAnHourThatHasJustBegunHasNoPriceYet(t *testing.T) {
	for passed, want := range map[time.Duration]bool{settled: true, settled - time.Second: false, 0: false, -90 * time.Minute: false} {
		b := newBench(t)
		b.clock.now = pastHour.Add(passed)
		_, known := b.At(t.Context(), pastHour)
		require.Equal(t, want, known, passed)
		require.Zero(t, b.logged("WARN"))
	}
}

// A ledger that was lost has hundreds of hours.
func TestManyHoursAreAskedForSlowly(t *testing.T) {
	b := newBench(t)
	known := 0
	for minute := range 20 {
		for hour := range 100 {
			if _, found := b.At(t.Context(), pastHour.Add(-time.Duration(hour)*time.Hour)); found {
				known = max(known, hour+1)
			}
		}
		require.Equal(t, min(100, (minute+1)*hoursAtOnce), known)
		require.Equal(t, known, b.prices.PastRequests("kraken"))
		b.clock.pass(roundInterval)
	}
}

func TestDecodersOfThePastRefuse(t *testing.T) {
	for _, c := range []struct {
		name   string
		decode func([]byte, time.Time) (int64, reason)
		body   string
		want   reason
	}{
		{"mempool later than asked", decodePastMempool, `{"prices":[{"time":1795248001,"USD":90000}]}`, reasonStale},
		{"mempool much earlier", decodePastMempool, `{"prices":[{"time":1795240799,"USD":90000}]}`, reasonStale},
		{"mempool without a price", decodePastMempool, `{"prices":[{"time":1795248000,"USD":-1}]}`, reasonAbsurd},
		{"mempool in euros", decodePastMempool, `{"prices":[{"time":1795248000,"EUR":90000}]}`, reasonMalformed},
		{"mempool with the whole history", decodePastMempool, `{"prices":[{"time":1795248000,"USD":90000},{"time":1795244400,"USD":90000}]}`, reasonMalformed},
		{"coinbase of another hour", decodePastCoinbase, `{"candles":[{"start":"1795251600","open":"90000"}]}`, reasonStale},
		{"coinbase error", decodePastCoinbase, `{"error":"INVALID_ARGUMENT"}`, reasonStale},
		{"kraken error", decodePastKraken, `{"error":["EGeneral:Too many requests"]}`, reasonRefused},
		{"kraken without trades", decodePastKraken, `{"error":[],"result":{"XXBTZUSD":[],"last":"0"}}`, reasonMalformed},
		{"kraken of a later hour", decodePastKraken, `{"error":[],"result":{"XXBTZUSD":[["90000","1",1795251600.0,"b","m","",1]],"last":"0"}}`, reasonStale},
		{"kraken of an earlier time", decodePastKraken, `{"error":[],"result":{"XXBTZUSD":[["90000","1",1795247999.9,"b","m","",1]],"last":"0"}}`, reasonStale},
		{"kraken with a number", decodePastKraken, `{"error":[],"result":{"XXBTZUSD":[[90000,"1",1795248000.1,"b","m","",1]],"last":"0"}}`, reasonMalformed},
		{"kraken with a text as time", decodePastKraken, `{"error":[],"result":{"XXBTZUSD":[["90000","1","1795248000.1","b","m","",1]],"last":"0"}}`, reasonMalformed},
		{"bitstamp of another hour", decodePastBitstamp, `{"data":{"ohlc":[{"timestamp":"1795244400","open":"90000"}]}}`, reasonStale},
		{"bitstamp without a price", decodePastBitstamp, `{"data":{"ohlc":[{"timestamp":"1795248000","open":""}]}}`, reasonMalformed},
		{"a page", decodePastBitstamp, `<html>Just a moment...</html>`, reasonMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			price, bad := c.decode([]byte(c.body), pastHour)
			require.Equal(t, c.want, bad)
			require.Zero(t, price)
		})
	}
}

func FuzzDecodePast(f *testing.F) {
	f.Add([]byte(`{"prices":[{"time":1795248000,"USD":90000}]}`))
	f.Add([]byte(`{"candles":[{"start":"1795248000","open":"90000.12"}]}`))
	f.Add([]byte(`{"error":[],"result":{"XXBTZUSD":[["90000.1","0.01",1795248001.5]]}}`))
	f.Add([]byte(`{"data":{"ohlc":[{"timestamp":"1795248000","open":"90000"}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, s := range known {
			price, bad := s.decodePast(body, pastHour)
			if bad != "" {
				require.Zero(t, price, s.name)
				continue
			}
			require.True(t, minPrice <= price && price <= maxPrice, "%s: %d", s.name, price)
		}
	})
}

func TestPastEndpointsAreBelowTheConfiguredOnes(t *testing.T) {
	for _, s := range known {
		path, query := s.past(pastHour)
		f, err := newFeed(s, "https://example.com/prefix")
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(f.at(path, query.Encode()), "https://example.com/prefix/"+path+"?"), s.name)
	}
}
