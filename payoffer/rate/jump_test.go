package rate

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// Two that collude fall by 19 % a minute while the others are silent, and jump once
// the rate has expired: so 42 USD were sold for 2.76.
func TestTwoThatColludeSellNothingInAnOutage(t *testing.T) {
	for name, sources := range map[string][]string{
		"two of four":  nil,
		"two of three": {"mempool", "coinbase", "kraken"},
	} {
		for _, leap := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, at a leap: %v", name, leap), func(t *testing.T) {
				b := newBench(t, sources...)
				b.refresh(t)
				for _, silent := range []string{"kraken", "bitstamp"} {
					b.prices.Set(silent, payoffertest.PriceReply{Status: 500, Body: "x"})
				}
				lie := 90_000.0
				for range 180 {
					b.clock.pass(time.Minute)
					if lie *= 0.81; leap {
						lie = 3_000
					}
					for _, liar := range []string{"mempool", "coinbase"} {
						b.prices.Set(liar, payoffertest.PriceReply{Price: fmt.Sprint(max(200, int(lie)))})
					}
					// A fall within the bound is nothing that two of three can be denied.
					require.Contains(t, []int64{0, 72_900, 90_000}, b.refresh(t))
				}
				require.Zero(t, b.price())
				b.prices.SetAll(payoffertest.PriceReply{Price: "90000"})
				for range 6 { // until the silent ones are asked again
					b.clock.pass(time.Minute)
					b.refresh(t)
				}
				require.EqualValues(t, 90_000, b.price(), "the others are back")
			})
		}
	}
}

// The table of memory: so many sources agree of those that are set.
func TestAJumpNeedsAllSourcesOrAnHour(t *testing.T) {
	const atOnce, never = time.Duration(0), time.Duration(-1)
	all := []string{"mempool", "coinbase", "kraken", "bitstamp"}
	for _, c := range []struct {
		set, agree int
		after      time.Duration
	}{
		{4, 4, atOnce}, {4, 3, time.Hour}, {4, 2, never},
		{3, 3, atOnce}, {3, 2, never},
		{2, 2, time.Hour}, {2, 1, never},
		{1, 1, time.Hour},
	} {
		for _, price := range []int64{9_000, 71_000, 109_000} {
			t.Run(fmt.Sprintf("%d of %d to %d", c.agree, c.set, price), func(t *testing.T) {
				b := newBench(t, all[:c.set]...)
				b.refresh(t)
				for i, source := range all {
					b.prices.Set(source, payoffertest.PriceReply{Price: fmt.Sprint(price)})
					if i >= c.agree {
						b.prices.Set(source, payoffertest.PriceReply{Status: 500, Body: "x"})
					}
				}
				b.clock.pass(time.Minute)
				since, believed := b.clock.Now(), never
				for believed == never && b.clock.Now().Sub(since) < 3*time.Hour {
					if b.refresh(t) == price {
						believed = b.clock.Now().Sub(since)
					}
					b.clock.pass(time.Minute)
				}
				require.Equal(t, c.after, believed)
				if c.after == time.Hour {
					require.Equal(t, 1, b.logged("bitcoin price jumped"), "logged once while it lasts")
				}

				b.prices.SetAll(payoffertest.PriceReply{Price: "90000"})
				for range 6 {
					b.refresh(t)
					b.clock.pass(time.Minute)
				}
				if c.after == never || c.set >= jumpQuorum {
					require.EqualValues(t, 90_000, b.price(), "back, on the word of all")
				}
			})
		}
	}
}

// What all agree on is the price from then on, and what was believed before it no
// longer counts.
func TestAfterAJumpThatAllAgreeOnThreeGoOn(t *testing.T) {
	b := newBench(t)
	b.refresh(t)
	b.prices.SetAll(payoffertest.PriceReply{Price: "60000"})
	b.clock.pass(time.Minute)
	require.EqualValues(t, 60_000, b.refresh(t))
	b.prices.SetAll(payoffertest.PriceReply{Price: "59000"})
	b.prices.Set("kraken", payoffertest.PriceReply{Status: 500, Body: "x"})
	b.clock.pass(time.Minute)
	require.EqualValues(t, 59_000, b.refresh(t))
}

// However long nobody agreed, the last price that was believed is what the next is
// held against.
func TestALongSilenceForgetsNothing(t *testing.T) {
	for _, sources := range [][]string{nil, {"mempool", "coinbase", "kraken"}, {"mempool", "coinbase"}, {"mempool"}} {
		b := newBench(t, sources...)
		b.refresh(t)
		b.clock.pass(30 * 24 * time.Hour)
		b.prices.SetAll(payoffertest.PriceReply{Price: "9000"})
		b.prices.Set("kraken", payoffertest.PriceReply{Status: 500, Body: "x"})
		require.Zero(t, b.refresh(t), sources)
		require.Equal(t, 1, b.logged("bitcoin price jumped"))
		b.prices.SetAll(payoffertest.PriceReply{Price: "75000"})
		require.EqualValues(t, 75_000, b.refresh(t), "what is near it needs no more than a quorum")
	}
}

// The script of the only source: what it says each minute, 0 for nothing.
func TestTheOnlySourceIsBelievedWhenItHasHeldAJumpForAnHour(t *testing.T) {
	const calm = 90_000
	for name, c := range map[string]struct {
		says func(minute int) int
		// believed are the minutes at which another price than calm is first
		// believed, and the rate is calm again; -1 is never within three hours.
		other, back int
	}{
		"it falls and stays":                    {func(m int) int { return 9_000 }, 60, -1},
		"it rises and stays":                    {func(m int) int { return 110_000 }, 60, -1},
		"it is wrong for 50 minutes":            {func(m int) int { return pick(m < 50, 9_000, calm) }, -1, 50},
		"it is wrong once":                      {func(m int) int { return pick(m == 0, 9_000, calm) }, -1, 1},
		"it moves on after half an hour":        {func(m int) int { return pick(m < 30, 9_000, 15_000) }, 90, -1},
		"it is silent for half an hour":         {func(m int) int { return pick(m >= 20 && m < 50, 0, 9_000) }, 110, -1},
		"it is silent for ten minutes":          {func(m int) int { return pick(m >= 20 && m < 29, 0, 9_000) }, 60, -1},
		"it falls in steps of 15 % a minute":    {func(m int) int { return []int{76_500, 65_000, 55_300, 47_000}[min(m, 3)] }, 0, -1},
		"it says two prices by turns":           {func(m int) int { return pick(m%2 == 0, 9_000, 18_000) }, -1, -1},
		"it changes within a fifth as it holds": {func(m int) int { return pick(m%2 == 0, 9_000, 10_000) }, 60, -1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "kraken")
			require.EqualValues(t, calm, b.refresh(t))
			other, back := -1, -1
			for m := range 180 {
				b.clock.pass(time.Minute)
				b.prices.Set("kraken", payoffertest.PriceReply{Price: fmt.Sprint(c.says(m))})
				if c.says(m) == 0 {
					b.prices.Set("kraken", payoffertest.PriceReply{Status: 500, Body: "x"})
				}
				b.feeds[0].due = time.Time{} // it is asked each minute
				before := b.price()
				switch price := b.refresh(t); {
				case price != 0 && price != calm && other < 0:
					other = m
				case price == calm && before != calm && back < 0, price == calm && c.says(m) == calm && back < 0:
					back = m
				}
			}
			require.Equal(t, c.other, other)
			require.Equal(t, c.back, back)
			require.LessOrEqual(t, b.logged("bitcoin price jumped"), 2, "logged once while it lasts")
		})
	}
}

func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

// Steps that each are small are a jump when they come within an hour.
func TestSmallStepsOfTheOnlySourceAddUp(t *testing.T) {
	b := newBench(t, "kraken")
	price := 90_000.0
	b.refresh(t)
	for range 30 {
		b.clock.pass(time.Minute)
		price *= 0.85
		b.prices.Set("kraken", payoffertest.PriceReply{Price: fmt.Sprintf("%.2f", price)})
		got := b.refresh(t)
		require.Contains(t, []int64{0, 76_500}, got)
	}
	require.Zero(t, b.price(), "none, rather than a wrong one")
}

// Whatever the only source says, both of two, or three of four, a price that is
// believed lies within a fifth of all that were believed in the hour before, and one
// that was refused first was held for an hour, or is near the last that was believed.
func TestNoJumpThatNotAllOfManyTellIsBelievedAtOnce(t *testing.T) {
	for n := range cases.Count(t) / 50 {
		random := rand.New(rand.NewPCG(uint64(n), 0))
		var m memory
		set := []int{1, 2, 4}[n%3]
		var believed, refused []sample // refused since the last that was believed
		now, price := sampleTime, int64(90_000)
		for range 200 {
			now = now.Add(time.Duration(random.IntN(240)) * time.Second)
			switch random.IntN(40) {
			case 0:
				price = 100 + random.Int64N(200_000)
			case 1:
				price = 90_000
			default:
				price += price * (random.Int64N(11) - 5) / 100
			}
			if !m.believes(price, min(set, jumpQuorum), set, now) {
				refused = append(refused, sample{price, now})
				continue
			}
			for i := len(believed) - 1; i >= 0 && now.Sub(believed[i].at) < driftWindow; i-- {
				require.False(t, differs(believed[i].microUSD, price, maxJumpPercent), "case %d: %d after %d", n, price, believed[i].microUSD)
			}
			if len(refused) > 0 && differs(believed[len(believed)-1].microUSD, price, maxJumpPercent) {
				require.GreaterOrEqual(t, now.Sub(refused[0].at), holdFor, "case %d", n)
				for _, s := range refused {
					require.False(t, now.Sub(s.at) < holdFor && differs(s.microUSD, price, maxJumpPercent), "case %d: %d after %d", n, price, s.microUSD)
				}
			}
			believed, refused = append(believed, sample{price, now}), nil
		}
	}
}

// The same with a Watcher that runs, in a time of its own.
func TestARunningWatcherDoesNotBelieveAJumpOfItsOnlySource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w, err := New(Config{Sources: []string{"coinbase"}, Transport: transport(func(*http.Request) (*http.Response, error) {
			price := "90000"
			if time.Since(start) >= 5*time.Minute {
				price = "9000"
			}
			body := `{"data":{"amount":"` + price + `","base":"BTC","currency":"USD"}}`
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil
		})})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			w.Run(ctx)
			close(ended)
		}()
		for range 64 {
			time.Sleep(time.Minute)
			if current, known := w.Current(); known {
				require.EqualValues(t, int64(90_000*microUSDPerUSD), current.MicroUSD, time.Since(start))
			}
		}
		time.Sleep(3 * time.Minute)
		current, known := w.Current()
		require.True(t, known)
		require.EqualValues(t, int64(9_000*microUSDPerUSD), current.MicroUSD)
		cancel()
		<-ended
	})
}
