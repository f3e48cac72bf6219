package rate

import (
	"context"
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
	agreed := agree(quotes, quorum(len(w.feeds)))
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
