package rate

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Refresh runs one round: it asks, in parallel, every source that is not
// paused after failures, and takes over the price that they agree on. It
// returns after at most 3 seconds, and changes nothing if ctx ends before.
func (w *Watcher) Refresh(ctx context.Context) {
	w.round.Lock()
	defer w.round.Unlock()
	w.announce() // the rate may have expired since
	// Without its monotonic reading, which stands still while a computer sleeps
	// and would let an old rate look new after it.
	start := w.now().Round(0)
	answers := w.ask(ctx, start)
	if ctx.Err() != nil {
		return
	}
	w.settle(answers, start)
	w.announce()
}

// answer is how one feed fared in a round.
type answer struct {
	feed     *feed
	microUSD int64
	failure  reason
}

// ask asks the feeds that are due and waits for all of them.
func (w *Watcher) ask(ctx context.Context, start time.Time) []answer {
	var due []answer
	for _, f := range w.feeds {
		if !start.Before(f.due) {
			due = append(due, answer{feed: f})
		}
	}
	var wg sync.WaitGroup
	for i := range due {
		wg.Go(func() {
			f := due[i].feed
			due[i].microUSD, due[i].failure = w.fetch(ctx, f.at(f.path, f.query), func(body []byte) (int64, reason) {
				return f.decode(body, start)
			})
		})
	}
	wg.Wait()
	return due
}

// settle judges the answers of a round that began at start.
func (w *Watcher) settle(answers []answer, start time.Time) {
	var quotes []quote
	for _, a := range answers {
		a.feed.schedule(a.failure, start, w.random())
		if a.failure == "" {
			quotes = append(quotes, quote{source: a.feed.name, microUSD: a.microUSD})
		}
	}
	set := len(w.feeds)
	agreed := agree(quotes, quorum(set))
	for _, a := range answers {
		a.feed.note(verdict(a, agreed), start, w.log)
	}
	switch {
	case agreed.microUSD == 0:
		if len(quotes) > 0 { // the network is there, and one answer is worth nothing without others
			for _, f := range w.feeds {
				f.due = time.Time{}
			}
		}
		w.refuse(len(quotes) >= quorum(set), "bitcoin price sources disagree")
	case !w.memory.believes(agreed.microUSD, len(agreed.sources), set, start):
		w.refuse(true, "bitcoin price jumped by more than a fifth; it is not believed until every price source agrees on it, or until three or all that are set have held it for an hour; name one that is gone no longer in rates")
	default:
		w.refusing = false
		w.current.Store(&Rate{MicroUSD: agreed.microUSD, At: start, Sources: agreed.sources})
	}
}

// verdict is what is wrong with the answer a, empty if nothing is. Without an
// agreement nobody knows which source is wrong, so an outlier stays one.
func verdict(a answer, agreed agreement) reason {
	switch {
	case a.failure != "":
		return a.failure
	case slices.Contains(agreed.outliers, a.feed.name):
		return reasonOutlier
	case agreed.microUSD == 0 && a.feed.bad == reasonOutlier:
		return reasonOutlier
	}
	return ""
}

// refuse logs, once while it lasts, why answers made no rate. If too few sources
// answered there is nothing to say: the others were logged already.
func (w *Watcher) refuse(worthLogging bool, why string) {
	if worthLogging && !w.refusing {
		w.log.Warn(why)
		w.refusing = true
	}
}

// announce tells the listeners if the current rate is another than the one that was
// announced last. A confirmed rate is the same, only younger; that is told when it is
// younger by tellEvery, for amounts are quoted with the time until which they hold.
func (w *Watcher) announce() {
	before := w.announced
	now, available := w.Current()
	same := before.MicroUSD == now.MicroUSD && slices.Equal(before.Sources, now.Sources)
	if same && now.At.Sub(before.At).Abs() < tellEvery {
		return
	}
	w.announced = now
	if !available {
		w.log.Warn("bitcoin price expired; amounts in bitcoin are unavailable until price sources agree again")
	} else if before.MicroUSD == 0 {
		w.log.Info("bitcoin price is available", "sources", now.Sources)
	}
	w.Tell()
}
