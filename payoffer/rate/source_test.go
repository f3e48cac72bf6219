package rate

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

var sampleTime = time.Unix(1_795_250_000, 0)

func byName(t *testing.T, name string) provider {
	t.Helper()
	i := slices.IndexFunc(known, func(p provider) bool { return p.name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return known[i]
}

func TestDecodersReadRecordedAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		source string
		body   string
		want   int64
	}{
		{"mempool", "mempool", `{"time":1795250000,"USD":90000,"EUR":83000,"GBP":-1}`, 90_000_000_000},
		{"coinbase", "coinbase", `{"data":{"amount":"90000.12","base":"BTC","currency":"USD"}}`, 90_000_120_000},
		{"kraken", "kraken", `{"error":[],"result":{"XXBTZUSD":{"a":["27712.20000","8","8.000"],"b":["27712.00000","2","2.000"],"c":["27712.10000","0.01686188"],"t":[20034,23808],"o":"27428.20000"}}}`, 27_712_100_000},
		{"bitstamp", "bitstamp", `{"timestamp":"1795250000","open":"89000","last":"90000.5","bid":"90000","ask":"90001"}`, 90_000_500_000},
		{"bitstamp with numbers", "bitstamp", `{"timestamp":1795250000,"last":24574}`, 24_574_000_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			price, bad := byName(t, c.source).read([]byte(c.body), sampleTime)
			require.Empty(t, bad)
			require.Equal(t, c.want, price)
		})
	}
}

func TestDecodersRefuse(t *testing.T) {
	for _, c := range []struct {
		name   string
		source string
		body   string
		want   string
	}{
		{"mempool without time", "mempool", `{"USD":90000}`, source.BadAnswer},
		{"mempool without a price", "mempool", `{"time":1795250000,"USD":-1}`, source.BadAnswer},
		{"mempool too old", "mempool", `{"time":1795249699,"USD":90000}`, reasonStale},
		{"mempool from the future", "mempool", `{"time":1795250301,"USD":90000}`, reasonStale},
		{"mempool with a broken time", "mempool", `{"time":1e400,"USD":90000}`, source.BadAnswer},
		{"coinbase in euros", "coinbase", `{"data":{"amount":"90000.12","base":"BTC","currency":"EUR"}}`, source.BadAnswer},
		{"coinbase of another coin", "coinbase", `{"data":{"amount":"4000.12","base":"ETH","currency":"USD"}}`, source.BadAnswer},
		{"coinbase error", "coinbase", `{"errors":[{"id":"not_found"}]}`, source.BadAnswer},
		{"coinbase of zero", "coinbase", `{"data":{"amount":"0","base":"BTC","currency":"USD"}}`, source.BadAnswer},
		{"kraken error", "kraken", `{"error":["EGeneral:Too many requests"]}`, source.BadAnswer},
		{"kraken error beside a price", "kraken", `{"error":["EService:Busy"],"result":{"XXBTZUSD":{"c":["90000.1","0.01"]}}}`, source.BadAnswer},
		{"kraken without error list", "kraken", `{"result":{"XXBTZUSD":{"c":["90000.1","0.01"]}}}`, source.BadAnswer},
		{"kraken with null error list", "kraken", `{"error":null,"result":{"XXBTZUSD":{"c":["90000.1","0.01"]}}}`, source.BadAnswer},
		{"kraken of another pair", "kraken", `{"error":[],"result":{"XETHZUSD":{"c":["4000.1","0.01"]}}}`, source.BadAnswer},
		{"kraken without last trade", "kraken", `{"error":[],"result":{"XXBTZUSD":{"c":[]}}}`, source.BadAnswer},
		{"bitstamp too old", "bitstamp", `{"timestamp":"1795249699","last":"90000"}`, reasonStale},
		{"bitstamp without timestamp", "bitstamp", `{"last":"90000"}`, source.BadAnswer},
		{"a page", "bitstamp", `<html>Just a moment...</html>`, source.BadAnswer},
		{"two documents", "bitstamp", `{"timestamp":"1795250000","last":"90000"} {}`, source.BadAnswer},
		{"an exponent", "coinbase", `{"data":{"amount":"9e4","base":"BTC","currency":"USD"}}`, source.BadAnswer},
		{"a fraction", "coinbase", `{"data":{"amount":"90000/1","base":"BTC","currency":"USD"}}`, source.BadAnswer},
		{"below every price", "coinbase", `{"data":{"amount":"99.999999","base":"BTC","currency":"USD"}}`, source.BadAnswer},
		{"above every price", "coinbase", `{"data":{"amount":"100000000.000001","base":"BTC","currency":"USD"}}`, source.BadAnswer},
		{"far above every price", "coinbase", `{"data":{"amount":"9000000000000","base":"BTC","currency":"USD"}}`, source.BadAnswer},
	} {
		t.Run(c.name, func(t *testing.T) {
			price, bad := byName(t, c.source).read([]byte(c.body), sampleTime)
			require.Equal(t, c.want, bad)
			require.Zero(t, price)
		})
	}
}

func TestSamplesUpToFiveMinutesOldCount(t *testing.T) {
	for _, age := range []time.Duration{-5 * time.Minute, 0, 5 * time.Minute} {
		body := fmt.Sprintf(`{"time":%d,"USD":90000}`, sampleTime.Add(-age).Unix())
		_, bad := byName(t, "mempool").read([]byte(body), sampleTime)
		require.Empty(t, bad, age)
	}
}

func FuzzPriceRoundsDown(f *testing.F) {
	for _, seed := range []string{"90000", "90000.12", "100.0000009", "99999999.999999999", "-1", "1e9", "007", "1."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		as := provider{decode: func(body []byte) (price, at json.Number, ok bool) { return json.Number(body), "", true }}
		price, bad := as.read([]byte(text), sampleTime)
		if bad != "" {
			return
		}
		exact, ok := new(big.Rat).SetString(text)
		require.True(t, ok, text)
		exact.Mul(exact, big.NewRat(microUSDPerUSD, 1))
		floor := new(big.Int).Quo(exact.Num(), exact.Denom())
		require.Equal(t, floor.String(), fmt.Sprint(price), text)
	})
}

func TestSatoshisRoundsUp(t *testing.T) {
	// Computed with exact fractions outside of this project.
	for _, c := range []struct{ cents, microUSD, want int64 }{
		{4200, 90_000_000_000, 46_667},
		{4200, 90_000_120_000, 46_667},
		{4200, 84_000_000_000, 50_000},
		{4200, 41_999_999_999, 100_001},
		{4200, 42_000_000_000, 100_000},
		{4200, 42_000_000_001, 100_000},
		{4200, 100_000_000, 42_000_000},
		{4200, 100_000_000_000_000, 42},
		{1, 90_000_000_000, 12},
		{1, 100_000_000_000_000, 1},
		{100_000_000, 100_000_000, 1_000_000_000_000},
	} {
		require.Equal(t, c.want, Satoshis(c.cents, Rate{MicroUSD: c.microUSD}), "%d cents at %d", c.cents, c.microUSD)
	}
}

func TestSatoshisOfInvalidInputIsZero(t *testing.T) {
	require.Zero(t, Satoshis(4200, Rate{}))
	require.Zero(t, Satoshis(4200, Rate{MicroUSD: -1}))
	require.Zero(t, Satoshis(0, Rate{MicroUSD: minPrice}))
	require.Zero(t, Satoshis(-4200, Rate{MicroUSD: minPrice}))
	require.Zero(t, Satoshis(math.MaxInt64, Rate{MicroUSD: minPrice}), "more than 64 bits")
	require.Zero(t, Satoshis(4200, Rate{MicroUSD: 1}), "more than all bitcoin")
}

func FuzzSatoshisAreMinimal(f *testing.F) {
	f.Add(int64(4200), int64(90_000_000_000))
	f.Add(int64(1), int64(maxPrice))
	f.Add(int64(100_000_000), int64(minPrice))
	f.Fuzz(func(t *testing.T, cents, microUSD int64) {
		sats := Satoshis(cents, Rate{MicroUSD: microUSD})
		if sats == 0 {
			return
		}
		price := big.NewRat(cents, 100)
		worth := func(sats int64) *big.Rat {
			usd := new(big.Rat).Mul(big.NewRat(sats, 100_000_000), big.NewRat(microUSD, 1_000_000))
			return usd
		}
		require.GreaterOrEqual(t, worth(sats).Cmp(price), 0, "worth less than the price")
		require.Negative(t, worth(sats-1).Cmp(price), "a satoshi less would do")
	})
}

func TestPriceIsMedianOfAgreeingSources(t *testing.T) {
	for _, c := range []struct {
		name    string
		prices  []int64 // of a, b, c, d; 0 did not answer
		want    int64
		problem string
		wrong   string // the sources whose price is too far away
	}{
		{"no answer", []int64{0, 0, 0, 0}, 0, "too few answers", ""},
		{"one of four", []int64{0, 90_000, 0, 0}, 0, "too few answers", ""},
		{"one of two", []int64{90_000, 0}, 0, "too few answers", ""},
		{"the only one", []int64{90_000}, 90_000, "", ""},
		{"two of four", []int64{0, 90_000, 0, 90_100}, 90_050, "", ""},
		{"three", []int64{90_200, 90_000, 90_100}, 90_100, "", ""},
		{"four, rounded down", []int64{90_003, 90_000, 90_100, 89_900}, 90_001, "", ""},
		{"one of four too high", []int64{900_000, 90_000, 90_100, 89_900}, 90_050, "", "a"},
		{"one of four too low", []int64{90_000, 90_100, 9_000, 89_900}, 89_950, "", "c"},
		{"one of three too low", []int64{90_000, 100, 90_100}, 90_000, "", "b"},
		{"two that differ by 5 %", []int64{97_500, 102_500}, 100_000, "", ""},
		{"two that differ by more", []int64{97_499, 102_501}, 0, "prices disagree", "ab"},
		{"two against two", []int64{90_000, 90_000, 180_000, 180_000}, 0, "prices disagree", "abcd"},
		{"three apart", []int64{80_000, 90_000, 100_000}, 0, "prices disagree", "ac"},
		{"half of four apart", []int64{90_000, 90_000, 100_000, 80_000}, 0, "prices disagree", "cd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var answers []Answer
			for i, price := range c.prices {
				answers = append(answers, Answer{Source: fmt.Sprintf("%c", 'a'+i), MicroUSD: price})
			}
			median, problem := agree(answers)
			require.Equal(t, c.want, median)
			require.Equal(t, c.problem, problem)
			wrong := ""
			for _, a := range answers {
				if a.Reason == reasonDisagree {
					wrong += a.Source
				}
			}
			require.Equal(t, c.wrong, wrong)
		})
	}
}
