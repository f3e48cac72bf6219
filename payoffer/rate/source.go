package rate

import (
	"encoding/json"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// maxSampleAge limits the difference between the time of a price and now.
	maxSampleAge = 5 * time.Minute

	// A price outside 100 USD to 100 million USD is an error of its source.
	minPrice = 100 * microUSDPerUSD
	maxPrice = 100_000_000 * microUSDPerUSD
)

// provider is a public price source. decode returns the price and its Unix time, which
// is empty if the source does not state one.
type provider struct {
	name, url string
	decode    func(body []byte) (price, at json.Number, ok bool)
}

// known are the price sources. None needs a key.
var known = []provider{
	{"mempool", "https://mempool.space/api/v1/prices", decodeMempool},
	{"coinbase", "https://api.coinbase.com/v2/prices/BTC-USD/spot", decodeCoinbase},
	{"kraken", "https://api.kraken.com/0/public/Ticker?pair=XBTUSD", decodeKraken},
	{"bitstamp", "https://www.bitstamp.net/api/v2/ticker/btcusd/", decodeBitstamp},
}

// decodeMempool reads https://mempool.space/docs/api/rest#get-price:
// {"time":1795250000,"USD":90000,...}.
func decodeMempool(body []byte) (price, at json.Number, ok bool) {
	var answer struct {
		Time json.Number `json:"time"`
		USD  json.Number `json:"USD"`
	}
	err := json.Unmarshal(body, &answer)
	return answer.USD, answer.Time, err == nil && answer.Time != ""
}

// decodeCoinbase reads the spot price of the Coinbase API v2:
// {"data":{"amount":"90000.12","base":"BTC","currency":"USD"}}.
func decodeCoinbase(body []byte) (price, at json.Number, ok bool) {
	var answer struct {
		Data struct {
			Amount   json.Number `json:"amount"`
			Base     string      `json:"base"`
			Currency string      `json:"currency"`
		} `json:"data"`
	}
	err := json.Unmarshal(body, &answer)
	return answer.Data.Amount, "", err == nil && answer.Data.Base == "BTC" && answer.Data.Currency == "USD"
}

// decodeKraken reads the last trade of https://docs.kraken.com/api/docs/rest-api/get-ticker-information:
// {"error":[],"result":{"XXBTZUSD":{"c":["90000.1","0.01"],...}}}. Kraken reports
// errors with status 200: the error list must exist and be empty.
func decodeKraken(body []byte) (price, at json.Number, ok bool) {
	var answer struct {
		Error  []json.RawMessage `json:"error"`
		Result struct {
			Ticker struct {
				LastTrade []json.Number `json:"c"` // price, volume
			} `json:"XXBTZUSD"`
		} `json:"result"`
	}
	err := json.Unmarshal(body, &answer)
	trade := answer.Result.Ticker.LastTrade
	if err != nil || answer.Error == nil || len(answer.Error) > 0 || len(trade) != 2 {
		return "", "", false
	}
	return trade[0], "", true
}

// decodeBitstamp reads the last trade of https://www.bitstamp.net/api/#tag/Tickers:
// {"timestamp":"1795250000","last":"90000",...}.
func decodeBitstamp(body []byte) (price, at json.Number, ok bool) {
	var answer struct {
		Last      json.Number `json:"last"`
		Timestamp json.Number `json:"timestamp"`
	}
	err := json.Unmarshal(body, &answer)
	return answer.Last, answer.Timestamp, err == nil && answer.Timestamp != ""
}

// read returns the price of an answer in micro USD, or the reason why there is none. It
// rounds down, because a lower price asks for more satoshis.
func (p provider) read(body []byte, now time.Time) (microUSD int64, reason string) {
	price, at, ok := p.decode(body)
	if !ok {
		return 0, source.BadAnswer
	}
	if at != "" {
		seconds, err := at.Int64()
		if err != nil {
			return 0, source.BadAnswer
		}
		if now.Sub(time.Unix(seconds, 0)).Abs() > maxSampleAge {
			return 0, reasonStale
		}
	}
	microUSD, _, ok = offer.ParseDecimal(price.String(), 6)
	if !ok || microUSD < minPrice || microUSD > maxPrice {
		return 0, source.BadAnswer
	}
	return microUSD, ""
}
