package rate

import (
	"encoding/json"
	"fmt"
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

func FuzzAPriceIsRoundedDown(f *testing.F) {
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
