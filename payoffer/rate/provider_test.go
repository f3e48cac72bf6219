package rate

import (
	"encoding/json"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var sampleTime = time.Unix(1_795_250_000, 0)

func TestDecodersReadRecordedAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		decode func([]byte, time.Time) (int64, reason)
		body   string
		want   int64
	}{
		{"mempool", decodeMempool, `{"time":1795250000,"USD":90000,"EUR":83000,"GBP":-1}`, 90_000_000_000},
		{"coinbase", decodeCoinbase, `{"data":{"amount":"90000.12","base":"BTC","currency":"USD"}}`, 90_000_120_000},
		{"kraken", decodeKraken, `{"error":[],"result":{"XXBTZUSD":{"a":["27712.20000","8","8.000"],"b":["27712.00000","2","2.000"],"c":["27712.10000","0.01686188"],"t":[20034,23808],"o":"27428.20000"}}}`, 27_712_100_000},
		{"bitstamp", decodeBitstamp, `{"timestamp":"1795250000","open":"89000","last":"90000.5","bid":"90000","ask":"90001"}`, 90_000_500_000},
		{"bitstamp with numbers", decodeBitstamp, `{"timestamp":1795250000,"last":24574}`, 24_574_000_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			price, bad := c.decode([]byte(c.body), sampleTime)
			require.Empty(t, bad)
			require.Equal(t, c.want, price)
		})
	}
}

func TestDecodersRefuse(t *testing.T) {
	for _, c := range []struct {
		name   string
		decode func([]byte, time.Time) (int64, reason)
		body   string
		want   reason
	}{
		{"mempool without time", decodeMempool, `{"USD":90000}`, reasonMalformed},
		{"mempool without a price", decodeMempool, `{"time":1795250000,"USD":-1}`, reasonAbsurd},
		{"mempool too old", decodeMempool, `{"time":1795249699,"USD":90000}`, reasonStale},
		{"mempool from the future", decodeMempool, `{"time":1795250301,"USD":90000}`, reasonStale},
		{"mempool with a broken time", decodeMempool, `{"time":1e400,"USD":90000}`, reasonMalformed},
		{"coinbase in euros", decodeCoinbase, `{"data":{"amount":"90000.12","base":"BTC","currency":"EUR"}}`, reasonMalformed},
		{"coinbase of another coin", decodeCoinbase, `{"data":{"amount":"4000.12","base":"ETH","currency":"USD"}}`, reasonMalformed},
		{"coinbase error", decodeCoinbase, `{"errors":[{"id":"not_found"}]}`, reasonMalformed},
		{"coinbase of zero", decodeCoinbase, `{"data":{"amount":"0","base":"BTC","currency":"USD"}}`, reasonAbsurd},
		{"kraken error", decodeKraken, `{"error":["EGeneral:Too many requests"]}`, reasonRefused},
		{"kraken error beside a price", decodeKraken, `{"error":["EService:Busy"],"result":{"XXBTZUSD":{"c":["90000.1","0.01"]}}}`, reasonRefused},
		{"kraken without error list", decodeKraken, `{"result":{"XXBTZUSD":{"c":["90000.1","0.01"]}}}`, reasonMalformed},
		{"kraken with null error list", decodeKraken, `{"error":null,"result":{"XXBTZUSD":{"c":["90000.1","0.01"]}}}`, reasonMalformed},
		{"kraken of another pair", decodeKraken, `{"error":[],"result":{"XETHZUSD":{"c":["4000.1","0.01"]}}}`, reasonMalformed},
		{"kraken without last trade", decodeKraken, `{"error":[],"result":{"XXBTZUSD":{"c":[]}}}`, reasonMalformed},
		{"bitstamp too old", decodeBitstamp, `{"timestamp":"1795249699","last":"90000"}`, reasonStale},
		{"bitstamp without timestamp", decodeBitstamp, `{"last":"90000"}`, reasonMalformed},
		{"a page", decodeBitstamp, `<html>Just a moment...</html>`, reasonMalformed},
		{"two documents", decodeBitstamp, `{"timestamp":"1795250000","last":"90000"} {}`, reasonMalformed},
		{"an exponent", decodeCoinbase, `{"data":{"amount":"9e4","base":"BTC","currency":"USD"}}`, reasonMalformed},
		{"a fraction", decodeCoinbase, `{"data":{"amount":"90000/1","base":"BTC","currency":"USD"}}`, reasonMalformed},
		{"below every price", decodeCoinbase, `{"data":{"amount":"99.999999","base":"BTC","currency":"USD"}}`, reasonAbsurd},
		{"above every price", decodeCoinbase, `{"data":{"amount":"100000000.000001","base":"BTC","currency":"USD"}}`, reasonAbsurd},
		{"far above every price", decodeCoinbase, `{"data":{"amount":"9000000000000","base":"BTC","currency":"USD"}}`, reasonAbsurd},
	} {
		t.Run(c.name, func(t *testing.T) {
			price, bad := c.decode([]byte(c.body), sampleTime)
			require.Equal(t, c.want, bad)
			require.Zero(t, price)
		})
	}
}

func TestSamplesUpToFiveMinutesOldCount(t *testing.T) {
	for _, age := range []time.Duration{-5 * time.Minute, 0, 5 * time.Minute} {
		body := fmt.Sprintf(`{"time":%d,"USD":90000}`, sampleTime.Add(-age).Unix())
		_, bad := decodeMempool([]byte(body), sampleTime)
		require.Empty(t, bad, age)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"time":1795250000,"USD":90000}`))
	f.Add([]byte(`{"data":{"amount":"90000.12","base":"BTC","currency":"USD"}}`))
	f.Add([]byte(`{"error":[],"result":{"XXBTZUSD":{"c":["90000.1","0.01"]}}}`))
	f.Add([]byte(`{"error":["EGeneral:Internal error"]}`))
	f.Add([]byte(`{"timestamp":"1795250000","last":"90000"}`))
	f.Add([]byte(`{"timestamp":"1795250000","last":"-1e999999999"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, s := range known {
			price, bad := s.decode(body, sampleTime)
			if bad != "" {
				require.Zero(t, price, s.name)
				continue
			}
			require.True(t, minPrice <= price && price <= maxPrice, "%s: %d", s.name, price)
		}
	})
}

func FuzzParsePrice(f *testing.F) {
	for _, seed := range []string{"90000", "90000.12", "100.0000009", "99999999.999999999", "-1", "1e9", "007", "1."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		price, bad := parsePrice(json.Number(text))
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
