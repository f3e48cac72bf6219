package payoffertest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// past is the reply's price at the beginning of an hour; empty is none.
func (reply PriceReply) past(hour time.Time) string {
	if reply.Past == nil {
		return reply.Price
	}
	return reply.Past(hour)
}

// asked is the hour that a Unix second of the query lies in.
func asked(r *http.Request, name string) time.Time {
	second, _ := strconv.ParseInt(r.URL.Query().Get(name), 10, 64) // 0 is an hour without a price
	return time.Unix(second, 0).UTC().Truncate(time.Hour)
}

// pastMempool has one price an hour, and answers with the last one before the
// time.
func pastMempool(r *http.Request, reply PriceReply) any {
	hour, prices := asked(r, "timestamp"), []any{}
	if whole, _, _ := strings.Cut(reply.past(hour), "."); whole != "" {
		prices = append(prices, map[string]any{"time": hour.Unix(), r.URL.Query().Get("currency"): json.Number(whole)})
	}
	return map[string]any{"prices": prices, "exchangeRates": map[string]any{}}
}

// pastCoinbase lists the candles from start to end, newest first.
func pastCoinbase(r *http.Request, reply PriceReply) any {
	candles := []any{}
	for hour, first := asked(r, "end"), asked(r, "start"); !hour.Before(first) && len(candles) < 350; hour = hour.Add(-time.Hour) {
		if price := reply.past(hour); price != "" {
			candles = append(candles, map[string]string{
				"start": strconv.FormatInt(hour.Unix(), 10), "low": "1", "high": "9999999", "open": price, "close": "2", "volume": "3",
			})
		}
	}
	return map[string]any{"candles": candles}
}

// pastKraken lists the first trade from a time on, a second and a half after it.
func pastKraken(r *http.Request, reply PriceReply) any {
	hour := asked(r, "since")
	trades := []any{}
	if price := reply.past(hour); price != "" && r.URL.Query().Get("pair") == "XBTUSD" {
		trades = append(trades, []any{price, "0.01686188", float64(hour.Unix()) + 1.5, "b", "m", "", 61_044_952})
	}
	if reply.KrakenError != "" {
		return map[string]any{"error": []string{reply.KrakenError}}
	}
	return map[string]any{"error": []string{}, "result": map[string]any{"XXBTZUSD": trades, "last": "1688671969993150842"}}
}

// pastBitstamp lists the candle at start.
func pastBitstamp(r *http.Request, reply PriceReply) any {
	candles := []any{}
	if hour := asked(r, "start"); reply.past(hour) != "" {
		candles = append(candles, map[string]string{
			"timestamp": strconv.FormatInt(hour.Unix(), 10), "open": reply.past(hour), "high": "9999999", "low": "1", "close": "2", "volume": "3",
		})
	}
	return map[string]any{"data": map[string]any{"pair": "BTC/USD", "ohlc": candles}}
}
