package rate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// pollInterval is the time between two polls of the sources.
	pollInterval = time.Minute
	fetchTimeout = 3 * time.Second
	maxBody      = 64 << 10 // bytes
)

// Config describes a Watcher. Every field is optional.
type Config struct {
	// Sources are names of price sources: mempool, coinbase, kraken, bitstamp. Empty
	// means all.
	Sources []string
	// source.Default sets the fields below.
	Transport http.RoundTripper
	Now       func() time.Time
	Random    func() float64
	Logger    *slog.Logger
}

// Watcher keeps the current price. It is safe for concurrent use. Listeners are called
// after each new price and after a price expired. They must not call Refresh. A nil
// Watcher has no price.
type Watcher struct {
	source.Listeners
	providers []provider
	client    source.Client
	now       func() time.Time
	log       *slog.Logger
	loop      source.Loop

	current atomic.Pointer[Rate] // nil for none

	mu      sync.Mutex           // held during Refresh; guards the next fields
	paused  map[string]time.Time // until when a source asked not to be called
	problem string               // logged last
}

// New checks the names of the sources and returns a Watcher without a price. It
// does no I/O.
func New(cfg Config) (*Watcher, error) {
	source.Default(&cfg.Now, &cfg.Random, &cfg.Logger)
	w := &Watcher{
		client: source.Client{Transport: cfg.Transport, Timeout: fetchTimeout},
		now:    cfg.Now, log: cfg.Logger, paused: make(map[string]time.Time), problem: "not asked yet",
	}
	var names []string
	for _, p := range known {
		if names = append(names, p.name); len(cfg.Sources) == 0 || slices.Contains(cfg.Sources, p.name) {
			w.providers = append(w.providers, p)
		}
	}
	for _, name := range cfg.Sources {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("unknown bitcoin price source %q; valid sources: %s", name, strings.Join(names, ", "))
		}
	}
	w.loop.Poll = func(ctx context.Context) (time.Duration, error) {
		w.Refresh(ctx)
		pause := source.Spread(pollInterval, cfg.Random())
		if current, ok := w.Current(); ok {
			pause = min(pause, maxAge-w.now().Sub(current.At)+time.Nanosecond)
		}
		return pause, nil
	}
	return w, nil
}

// Current returns the current price, and false if there is none. It does no I/O.
func (w *Watcher) Current() (Rate, bool) {
	if w == nil {
		return Rate{}, false
	}
	current := w.current.Load()
	if current == nil || w.now().Sub(current.At).Abs() > maxAge {
		return Rate{}, false
	}
	return *current, true
}

// Run refreshes the price at once and then every minute until ctx ends.
func (w *Watcher) Run(ctx context.Context) { w.loop.Run(ctx) }

// Refresh requests the price of all sources and stores it if they agree. It returns
// after at most 3 seconds and stores nothing if ctx ends before.
func (w *Watcher) Refresh(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	start := w.now().Round(0) // the monotonic clock stops while a computer sleeps
	answers := w.fetch(ctx, start)
	if ctx.Err() != nil {
		return
	}
	price, problem := agree(answers)
	if price > 0 {
		w.current.Store(&Rate{MicroUSD: price, At: start})
	} else if _, fresh := w.Current(); fresh || problem == w.problem {
		return
	}
	switch {
	case problem != "":
		w.log.Warn("the bitcoin price is not available", "reason", problem, "answers", fmt.Sprint(answers),
			"hint", "bitcoin and Lightning have no price until sources agree; check the network, or remove a dead source from rates of bitcoin")
	case w.problem != "":
		w.log.Info("the bitcoin price is available")
	}
	w.problem = problem
	w.Notify()
}

// Reasons why an answer is not used, in addition to the codes of package source.
const (
	reasonStale    = "stale"    // the time of the price is old
	reasonDisagree = "disagree" // the price is too far from the median
)

// Answer is the answer of a price source.
type Answer struct {
	Source, URL string
	MicroUSD    int64  // 0 for none
	Reason      string // why the answer is not used; empty for a good answer
}

// String contains no text of the source.
func (a Answer) String() string {
	if a.MicroUSD == 0 {
		return a.Source + ": " + a.Reason
	}
	return fmt.Sprintf("%s: %.2f USD", a.Source, float64(a.MicroUSD)/microUSDPerUSD)
}

// Check requests the price of each source once. It returns after at most 3 seconds.
func Check(ctx context.Context, sources []string, transport http.RoundTripper) ([]Answer, error) {
	w, err := New(Config{Sources: sources, Transport: transport})
	if err != nil {
		return nil, err
	}
	answers := w.fetch(ctx, w.now())
	agree(answers)
	return answers, nil
}

// fetch returns one answer of each source.
func (w *Watcher) fetch(ctx context.Context, now time.Time) []Answer {
	answers, waits := make([]Answer, len(w.providers)), make([]time.Duration, len(w.providers))
	var calls sync.WaitGroup
	for i, p := range w.providers {
		if answers[i] = (Answer{Source: p.name, URL: p.url, Reason: source.Limited}); now.Before(w.paused[p.name]) {
			continue
		}
		calls.Go(func() {
			body, _, err := w.client.Do(ctx, source.Request{
				URL: p.url, Header: http.Header{"Accept": {"application/json"}}, Limit: maxBody,
			})
			if failed := (*source.Error)(nil); errors.As(err, &failed) {
				answers[i].Reason, waits[i] = failed.Code, failed.Wait
				return
			}
			answers[i].MicroUSD, answers[i].Reason = p.read(body, now)
		})
	}
	calls.Wait()
	for i, p := range w.providers {
		if waits[i] > 0 {
			w.paused[p.name] = now.Add(waits[i])
		}
	}
	return answers
}

// agree returns the median of the prices in micro USD, or 0 and the reason if the
// answers agree on no price. It sets the reason of each price far from the median.
func agree(answers []Answer) (median int64, problem string) {
	var prices []int64
	for _, a := range answers {
		if a.MicroUSD > 0 {
			prices = append(prices, a.MicroUSD)
		}
	}
	n := len(prices)
	if n < min(2, len(answers)) {
		return 0, "too few answers"
	}
	slices.Sort(prices)
	median = (prices[(n-1)/2] + prices[n/2]) / 2
	near := n
	for i, a := range answers {
		if a.MicroUSD > 0 && max(a.MicroUSD-median, median-a.MicroUSD)*1000 > median*25 {
			answers[i].Reason = reasonDisagree
			near--
		}
	}
	if 2*near <= n {
		return 0, "prices disagree"
	}
	return median, ""
}
