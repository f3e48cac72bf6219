package rate

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// roundInterval is the time between two rounds of asking the sources.
const roundInterval = time.Minute

// Config says which sources a Watcher asks and what it does so with. The zero
// value of every field has a working default.
type Config struct {
	// Sources names the price sources: mempool, coinbase, kraken, bitstamp.
	// Empty means all. With exactly one its word is taken; otherwise it takes
	// two sources that agree.
	Sources []string

	// Endpoints overrides the base URL (scheme, host, optional path prefix) of
	// a source, by its name: a self-hosted instance or a stand-in of a test.
	Endpoints map[string]string

	// Client sends the requests. It is copied; redirects are never followed.
	Client *http.Client

	// Now is the clock, safe for concurrent use; default time.Now.
	Now func() time.Time

	// Random returns a number in [0, 1) and spreads retries; default math/rand/v2.
	Random func() float64

	// Logger gets one warning for each source that goes bad, with its host
	// and a reason code, and one line when it is good again; default none.
	Logger *slog.Logger

	// OnChange is called after the price or its sources changed, after a rate
	// expired, and after one came back; not after a round that only confirmed
	// the rate. Calls never overlap. It may call Current but not Refresh.
	OnChange func()
}

// Watcher keeps the current rate. Its methods may be used concurrently.
type Watcher struct {
	client   *http.Client
	now      func() time.Time
	random   func() float64
	log      *slog.Logger
	onChange func()

	current atomic.Pointer[Rate]

	round     sync.Mutex // held for a round; guards what follows
	feeds     []*feed
	announced *Rate // what OnChange was last called for; nil is no rate
	refusing  bool  // a disagreement or jump was logged and lasts
}

// New checks the configuration and returns a Watcher that has no rate yet. It
// does no I/O. A source that is unknown or named twice and an endpoint that is no
// absolute http or https URL are errors that say what is allowed.
func New(cfg Config) (*Watcher, error) {
	feeds, err := configure(cfg.Sources, cfg.Endpoints)
	if err != nil {
		return nil, err
	}
	w := &Watcher{
		client:   &http.Client{},
		now:      cfg.Now,
		random:   cfg.Random,
		log:      cfg.Logger,
		onChange: cfg.OnChange,
		feeds:    feeds,
	}
	if cfg.Client != nil {
		*w.client = *cfg.Client
	}
	w.client.CheckRedirect = noRedirect
	if w.now == nil {
		w.now = time.Now
	}
	if w.random == nil {
		w.random = rand.Float64
	}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	if w.onChange == nil {
		w.onChange = func() {}
	}
	return w, nil
}

// configure resolves names to feeds, in the order given; no name means all.
func configure(selected []string, endpoints map[string]string) ([]*feed, error) {
	all := map[string]source{}
	for _, s := range known() {
		all[s.name] = s
	}
	for name := range endpoints {
		if _, ok := all[name]; !ok {
			return nil, fmt.Errorf("there is an endpoint for the unknown bitcoin price source %q; known are: %s", name, strings.Join(knownNames(), ", "))
		}
	}
	if len(selected) == 0 {
		selected = knownNames()
	}
	var feeds []*feed
	for i, name := range selected {
		s, ok := all[name]
		if !ok {
			return nil, fmt.Errorf("unknown bitcoin price source %q; known are: %s", name, strings.Join(knownNames(), ", "))
		}
		if slices.Contains(selected[:i], name) {
			return nil, fmt.Errorf("bitcoin price source %q is named twice; name each of %s at most once", name, strings.Join(knownNames(), ", "))
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

// Run refreshes the rate at once and then every minute until ctx ends. In
// between it announces a rate that expires.
func (w *Watcher) Run(ctx context.Context) {
	ticker := time.NewTicker(roundInterval)
	defer ticker.Stop()
	w.Refresh(ctx)
	for {
		expiry := time.NewTimer(w.untilExpiry())
		select {
		case <-ctx.Done():
			expiry.Stop()
			return
		case <-ticker.C:
			w.Refresh(ctx)
		case <-expiry.C:
			w.announceExpiry()
		}
		expiry.Stop()
	}
}

// untilExpiry is the time until the announced rate is too old, and a whole
// round if there is none.
func (w *Watcher) untilExpiry() time.Duration {
	rate := w.current.Load()
	if rate == nil {
		return roundInterval
	}
	left := maxAge - w.now().Sub(rate.At)
	if left < 0 {
		return roundInterval
	}
	return left + time.Nanosecond
}
