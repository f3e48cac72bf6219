package rate

import (
	"context"
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
	// roundInterval is the time between two rounds of asking the sources.
	roundInterval = time.Minute
	// tellEvery is how often listeners are told of a rate that stays the same.
	tellEvery = 10 * time.Minute
)

// Config says which sources a Watcher asks and what it does so with. The zero
// value of every field has a working default.
type Config struct {
	// Sources names the price sources: mempool, coinbase, kraken, bitstamp.
	// Empty means all. Of four three must agree, of two or three two; the word of
	// exactly one is taken. Of a jump it takes more: see memory.
	Sources []string

	// Endpoints overrides the base URL (scheme, host, optional path prefix) of
	// a source, by its name: a self-hosted instance or a stand-in of a test.
	Endpoints map[string]string

	// The rest is as package source says of all configurations.
	Transport http.RoundTripper
	Now       func() time.Time
	Random    func() float64
	Logger    *slog.Logger
}

// Watcher keeps the current rate. Its methods may be used concurrently. Who
// listens is told after the price or its sources changed, after a rate expired,
// and after one came back; after a round that only confirmed the rate not before
// tellEvery. A listener may call Current but not Refresh.
type Watcher struct {
	source.Listeners
	client source.Client
	now    func() time.Time
	random func() float64
	log    *slog.Logger
	loop   source.Loop

	current atomic.Pointer[Rate] // nil for none
	history history

	round     sync.Mutex // held for a round; guards what follows
	feeds     []*feed
	announced Rate // what was told last; zero is no rate
	refusing  bool // a disagreement or jump was logged and lasts
	memory    memory
}

// New checks the configuration and returns a Watcher that has no rate yet. It
// does no I/O. A source that is unknown or named twice and an endpoint that is no
// absolute http or https URL are errors that say what is allowed.
func New(cfg Config) (*Watcher, error) {
	feeds, err := configure(cfg.Sources, cfg.Endpoints)
	if err != nil {
		return nil, err
	}
	source.Default(&cfg.Now, &cfg.Random, &cfg.Logger)
	w := &Watcher{
		client: source.Client{Transport: cfg.Transport, Timeout: fetchTimeout},
		now:    cfg.Now, random: cfg.Random, log: cfg.Logger, feeds: feeds,
		history: history{rates: make(map[int64]Rate), due: make(map[int64]time.Time)},
	}
	w.loop = source.Loop{Round: func(ctx context.Context) (time.Duration, error) {
		w.Refresh(ctx)
		pause := roundInterval
		if rate, ok := w.Current(); ok {
			pause = min(pause, maxAge-w.now().Sub(rate.At)+time.Nanosecond)
		}
		return pause, nil
	}}
	return w, nil
}

// configure resolves names to feeds, in the order given; no name means all.
func configure(selected []string, endpoints map[string]string) ([]*feed, error) {
	all := map[string]provider{}
	var names []string
	for _, s := range known {
		all[s.name], names = s, append(names, s.name)
	}
	list := strings.Join(names, ", ")
	for name := range endpoints {
		if _, ok := all[name]; !ok {
			return nil, fmt.Errorf("there is an endpoint for the unknown bitcoin price source %q; known are: %s", name, list)
		}
	}
	if len(selected) == 0 {
		selected = names
	}
	var feeds []*feed
	for i, name := range selected {
		s, ok := all[name]
		if !ok {
			return nil, fmt.Errorf("unknown bitcoin price source %q; known are: %s", name, list)
		}
		if slices.Contains(selected[:i], name) {
			return nil, fmt.Errorf("bitcoin price source %q is named twice; name each of %s at most once", name, list)
		}
		f, err := newFeed(s, endpoints[name])
		if err != nil {
			return nil, err
		}
		feeds = append(feeds, f)
	}
	return feeds, nil
}

// Current returns the rate that amounts may be computed from, and whether there
// is one: false if none was fetched yet, or the last is older than 10 minutes.
// It never blocks and does no I/O.
func (w *Watcher) Current() (Rate, bool) {
	rate := w.current.Load()
	if rate == nil || !rate.fresh(w.now()) {
		return Rate{}, false
	}
	copied := *rate
	copied.Sources = slices.Clone(rate.Sources)
	return copied, true
}

// Run refreshes the rate at once and then every minute until ctx ends, and when
// it expires. It may be called again afterwards.
func (w *Watcher) Run(ctx context.Context) { w.loop.Run(ctx) }
