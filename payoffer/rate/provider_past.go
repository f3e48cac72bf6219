package rate

import (
	"encoding/json"
	"net/url"
	"strconv"
	"time"
)

// maxHistoryLag is how much older than an hour the price of a source that
// averages others may be.
const maxHistoryLag = 2 * time.Hour

// pastMempool asks for the last price before a time, in Unix seconds.
func pastMempool(begin time.Time) (path string, query url.Values) {
	return "api/v1/historical-price", url.Values{"currency": {"USD"}, "timestamp": {unix(begin.Add(time.Second))}}
}

// decodePastMempool reads https://mempool.space/docs/api/rest#get-historical-price:
// {"prices":[{"time":1795248000,"USD":90000}],"exchangeRates":{}}. It has one
// price an hour.
func decodePastMempool(body []byte, begin time.Time) (int64, reason) {
	var answer struct {
		Prices []struct {
			Time json.Number `json:"time"`
			USD  json.Number `json:"USD"`
		} `json:"prices"`
	}
	if json.Unmarshal(body, &answer) != nil || len(answer.Prices) != 1 {
		return 0, reasonMalformed
	}
	at, err := answer.Prices[0].Time.Int64()
	if err != nil {
		return 0, reasonMalformed
	}
	if lag := begin.Sub(time.Unix(at, 0)); lag < 0 || lag > maxHistoryLag {
		return 0, reasonStale
	}
	return parsePrice(answer.Prices[0].USD)
}

// pastCoinbase asks for the candle of an hour.
func pastCoinbase(begin time.Time) (path string, query url.Values) {
	return "api/v3/brokerage/market/products/BTC-USD/candles", url.Values{
		"start": {unix(begin)}, "end": {unix(begin.Add(time.Hour - time.Second))}, "granularity": {"ONE_HOUR"},
	}
}

// decodePastCoinbase reads the public candles of the Advanced Trade API:
// {"candles":[{"start":"1795248000","low":"…","high":"…","open":"90000.12","close":"…","volume":"…"}]}.
func decodePastCoinbase(body []byte, begin time.Time) (int64, reason) {
	var answer struct {
		Candles []struct {
			Start json.Number `json:"start"`
			Open  json.Number `json:"open"`
		} `json:"candles"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return 0, reasonMalformed
	}
	for _, c := range answer.Candles {
		if c.Start.String() == unix(begin) {
			return parsePrice(c.Open)
		}
	}
	return 0, reasonStale
}

// pastKraken asks for the first trade from a time on: candles reach back thirty
// days, and trades to the first.
func pastKraken(begin time.Time) (path string, query url.Values) {
	return "0/public/Trades", url.Values{"pair": {"XBTUSD"}, "since": {unix(begin)}, "count": {"1"}}
}

// decodePastKraken reads https://docs.kraken.com/api/docs/rest-api/get-recent-trades:
// {"error":[],"result":{"XXBTZUSD":[["90000.1","0.01",1795248001.5,"b","m","",61044952]],"last":"…"}}.
func decodePastKraken(body []byte, begin time.Time) (int64, reason) {
	var answer struct {
		Error  []json.RawMessage `json:"error"`
		Result struct {
			Trades [][]any `json:"XXBTZUSD"` // price, volume, Unix time, …
		} `json:"result"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Error == nil {
		return 0, reasonMalformed
	}
	if len(answer.Error) > 0 {
		return 0, reasonRefused
	}
	if len(answer.Result.Trades) == 0 || len(answer.Result.Trades[0]) < 3 {
		return 0, reasonMalformed
	}
	price, text := answer.Result.Trades[0][0].(string)
	at, number := answer.Result.Trades[0][2].(float64)
	if !text || !number {
		return 0, reasonMalformed
	}
	if after := at - float64(begin.Unix()); after < 0 || after >= time.Hour.Seconds() {
		return 0, reasonStale
	}
	return parsePrice(json.Number(price))
}

// pastBitstamp asks for the candle of an hour.
func pastBitstamp(begin time.Time) (path string, query url.Values) {
	return "api/v2/ohlc/btcusd/", url.Values{"step": {"3600"}, "limit": {"1"}, "start": {unix(begin)}}
}

// decodePastBitstamp reads https://www.bitstamp.net/api/#tag/Market-info/operation/GetOHLCData:
// {"data":{"pair":"BTC/USD","ohlc":[{"timestamp":"1795248000","open":"90000",…}]}}.
func decodePastBitstamp(body []byte, begin time.Time) (int64, reason) {
	var answer struct {
		Data struct {
			Candles []struct {
				Timestamp json.Number `json:"timestamp"`
				Open      json.Number `json:"open"`
			} `json:"ohlc"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return 0, reasonMalformed
	}
	for _, c := range answer.Data.Candles {
		if c.Timestamp.String() == unix(begin) {
			return parsePrice(c.Open)
		}
	}
	return 0, reasonStale
}

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
