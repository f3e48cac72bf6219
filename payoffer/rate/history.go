package rate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"
)

const (
	// settled is how long after the beginning of an hour its first trades are
	// told everywhere.
	settled = 5 * time.Minute
	// historyPause is how long an hour that the sources do not agree on is left
	// alone, and hoursAtOnce how many are asked for in a roundInterval: who has
	// lost a ledger asks for hundreds.
	historyPause = 10 * time.Minute
	hoursAtOnce  = 6
	// maxHours bounds the hours that are remembered.
	maxHours = 4096
	// maxHistoryLag is how much older than an hour the price of a source that
	// averages others may be.
	maxHistoryLag = 2 * time.Hour
)

// history are the prices of past hours, by the Unix second at which they began.
type history struct {
	mu      sync.Mutex
	rates   map[int64]Rate
	due     map[int64]time.Time // not to be asked for before
	counted time.Time           // since when asked counts
	asked   int
	missing bool // it was logged that there is none, and lasts
}

// At is the price at the beginning of the hour that a time lies in, in UTC; At of
// the Rate is that beginning. It is told by the same sources, which must agree as
// they do on the current price, and is the same whoever asks for it and whenever.
// It is false while they were not asked or do not agree: ask again later. Each
// hour is asked for once; that takes up to 3 seconds.
func (w *Watcher) At(ctx context.Context, at time.Time) (Rate, bool) {
	begin, h := at.UTC().Truncate(time.Hour), &w.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if past, known := h.rates[begin.Unix()]; known {
		past.Sources = slices.Clone(past.Sources)
		return past, true
	}
	now := w.now().Round(0)
	if now.Sub(begin) < settled || now.Before(h.due[begin.Unix()]) || !h.spend(now) {
		return Rate{}, false
	}
	past, found := w.askFor(ctx, begin)
	if ctx.Err() != nil {
		return Rate{}, false
	}
	if len(h.rates)+len(h.due) >= maxHours {
		clear(h.rates)
		clear(h.due)
	}
	if found {
		delete(h.due, begin.Unix())
		h.rates[begin.Unix()] = past
		past.Sources = slices.Clone(past.Sources)
	} else {
		h.due[begin.Unix()] = now.Add(historyPause)
		if !h.missing {
			w.log.Warn("the bitcoin price of a past hour is not known; what was paid then has no value until price sources agree", "hour", begin)
		}
	}
	h.missing = !found
	return past, found
}

// spend takes one of the hours that may be asked for now, if any is left.
func (h *history) spend(now time.Time) bool {
	if passed := now.Sub(h.counted); passed < 0 || passed >= roundInterval {
		h.counted, h.asked = now, 0
	}
	h.asked++
	return h.asked <= hoursAtOnce
}

// askFor asks all sources for the price at begin.
func (w *Watcher) askFor(ctx context.Context, begin time.Time) (Rate, bool) {
	answers := make([]answer, len(w.feeds))
	var wg sync.WaitGroup
	for i, f := range w.feeds {
		wg.Go(func() {
			path, query := f.past(begin)
			answers[i] = answer{feed: f}
			answers[i].microUSD, answers[i].failure = w.fetch(ctx, f.at(path, query.Encode()), func(body []byte) (int64, reason) {
				return f.decodePast(body, begin)
			})
		})
	}
	wg.Wait()
	var quotes []quote
	for _, a := range answers {
		if a.failure == "" {
			quotes = append(quotes, quote{source: a.feed.name, microUSD: a.microUSD})
		}
	}
	agreed := agree(quotes, len(w.feeds) == 1)
	// It is the word of one of those who agree, of the same one each time, and
	// not their median: that is another when another of them does not answer.
	// The exchanges come before mempool, which averages them later.
	for _, p := range slices.Backward(known) {
		i := slices.IndexFunc(quotes, func(q quote) bool { return q.source == p.name })
		if i >= 0 && slices.Contains(agreed.sources, p.name) {
			return Rate{MicroUSD: quotes[i].microUSD, At: begin, Sources: agreed.sources}, true
		}
	}
	return Rate{}, false
}

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

func unix(t time.Time) string { return fmt.Sprint(t.Unix()) }
