package rate

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// maxSampleAge is how far the time that a source gives for its price may be
	// from now, in either direction.
	maxSampleAge = 5 * time.Minute

	// A price outside of these bounds, in micro USD, is a mistake of its
	// source: 100 USD and 100 million USD for one bitcoin.
	minPrice = 100 * microUSDPerUSD
	maxPrice = 100_000_000 * microUSDPerUSD
)

// provider is a public price source: where it is asked, and how its answer is read.
type provider struct {
	name        string
	base        string // base URL of the public service
	path, query string // below the base
	decode      func(body []byte, now time.Time) (microUSD int64, bad reason)
	// past is where it is asked for its price at the beginning of an hour, below
	// the base, and decodePast reads the answer.
	past       func(begin time.Time) (path string, query url.Values)
	decodePast func(body []byte, begin time.Time) (microUSD int64, bad reason)
}

// known lists every price source. None needs a key.
var known = []provider{
	{
		name: "mempool", base: "https://mempool.space", path: "api/v1/prices", decode: decodeMempool,
		past: pastMempool, decodePast: decodePastMempool,
	},
	{
		name: "coinbase", base: "https://api.coinbase.com", path: "v2/prices/BTC-USD/spot", decode: decodeCoinbase,
		past: pastCoinbase, decodePast: decodePastCoinbase,
	},
	{
		name: "kraken", base: "https://api.kraken.com", path: "0/public/Ticker", query: "pair=XBTUSD", decode: decodeKraken,
		past: pastKraken, decodePast: decodePastKraken,
	},
	{
		name: "bitstamp", base: "https://www.bitstamp.net", path: "api/v2/ticker/btcusd/", decode: decodeBitstamp,
		past: pastBitstamp, decodePast: decodePastBitstamp,
	},
}

// decodeMempool reads https://mempool.space/docs/api/rest#get-price:
// {"time":1795250000,"USD":90000,...}. The server averages exchanges from time
// to time, so its time is what tells a price from a memory of one.
func decodeMempool(body []byte, now time.Time) (int64, reason) {
	var answer struct {
		Time json.Number `json:"time"`
		USD  json.Number `json:"USD"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return 0, reasonMalformed
	}
	return timedPrice(answer.USD, answer.Time, now)
}

// decodeCoinbase reads the spot price of the Coinbase API v2:
// {"data":{"amount":"90000.12","base":"BTC","currency":"USD"}}.
func decodeCoinbase(body []byte, _ time.Time) (int64, reason) {
	var answer struct {
		Data struct {
			Amount   json.Number `json:"amount"`
			Base     string      `json:"base"`
			Currency string      `json:"currency"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Data.Base != "BTC" || answer.Data.Currency != "USD" {
		return 0, reasonMalformed
	}
	return parsePrice(answer.Data.Amount)
}

// decodeKraken reads the last trade of https://docs.kraken.com/api/docs/rest-api/get-ticker-information:
// {"error":[],"result":{"XXBTZUSD":{"c":["90000.1","0.01"],...}}}. Kraken
// reports errors with status 200, so a missing or filled error list is one.
func decodeKraken(body []byte, _ time.Time) (int64, reason) {
	var answer struct {
		Error  []json.RawMessage `json:"error"`
		Result struct {
			Ticker struct {
				LastTrade []json.Number `json:"c"` // price, volume
			} `json:"XXBTZUSD"`
		} `json:"result"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Error == nil {
		return 0, reasonMalformed
	}
	if len(answer.Error) > 0 {
		return 0, reasonRefused
	}
	last := answer.Result.Ticker.LastTrade
	if len(last) != 2 {
		return 0, reasonMalformed
	}
	return parsePrice(last[0])
}

// decodeBitstamp reads the last trade of https://www.bitstamp.net/api/#tag/Tickers:
// {"timestamp":"1795250000","last":"90000",...}.
func decodeBitstamp(body []byte, now time.Time) (int64, reason) {
	var answer struct {
		Last      json.Number `json:"last"`
		Timestamp json.Number `json:"timestamp"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return 0, reasonMalformed
	}
	return timedPrice(answer.Last, answer.Timestamp, now)
}

// timedPrice is the price of a source that says, in Unix seconds, how old it is.
func timedPrice(price, unixSeconds json.Number, now time.Time) (int64, reason) {
	seconds, err := unixSeconds.Int64()
	if err != nil {
		return 0, reasonMalformed
	}
	microUSD, bad := parsePrice(price)
	if bad != "" {
		return 0, bad
	}
	if now.Sub(time.Unix(seconds, 0)).Abs() > maxSampleAge {
		return 0, reasonStale
	}
	return microUSD, ""
}

// parsePrice reads a plain decimal number of US dollars and returns micro USD.
// Digits after the sixth are cut off: a lower price asks for more satoshis,
// so the payee never gets less than the price. Exponents are refused, for no
// source writes them and a short one can stand for a number of any size.
func parsePrice(n json.Number) (int64, reason) {
	size, negative := strings.CutPrefix(n.String(), "-")
	price, _, ok := offer.ParseDecimal(size, 6)
	switch {
	case !ok:
		return 0, reasonMalformed
	case negative, price < minPrice, price > maxPrice:
		return 0, reasonAbsurd
	default:
		return price, ""
	}
}
