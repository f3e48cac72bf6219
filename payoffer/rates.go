package payoffer

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

// watchers holds the rate watchers by their sources, so that a reload keeps the
// current rate.
var watchers = caddy.NewUsagePool()

// rateWatcher is a pooled watcher. It runs from the first start of an app that
// uses it until its last user is gone.
type rateWatcher struct {
	*rate.Watcher
	key    string
	start  sync.Once
	cancel context.CancelFunc
	ctx    context.Context
	done   sync.WaitGroup
	logger currentLogger

	mu        sync.Mutex
	listeners map[*service]func()
}

// newRateWatcher makes a watcher that has no rate yet and does not run.
func newRateWatcher(key string, c rate.Config) (_ *rateWatcher, err error) {
	w := &rateWatcher{key: key, listeners: make(map[*service]func())}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	c.Logger, c.OnChange = slog.New(&w.logger), w.announce
	if w.Watcher, err = rate.New(c); err != nil {
		w.cancel()
	}
	return w, err
}

// referWatcher takes a reference to the watcher of sources; none means all.
func referWatcher(sources []string) (*rateWatcher, error) {
	key := strings.Join(sources, " ")
	value, _, err := watchers.LoadOrNew(key, func() (caddy.Destructor, error) {
		return newRateWatcher(key, rate.Config{Sources: sources})
	})
	if err != nil {
		return nil, err
	}
	return value.(*rateWatcher), nil
}

// listen calls changed whenever the rate changed, until unlisten.
func (w *rateWatcher) listen(s *service, changed func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listeners[s] = changed
}

func (w *rateWatcher) unlisten(s *service) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.listeners, s)
}

func (w *rateWatcher) announce() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, changed := range w.listeners {
		changed()
	}
}

// run starts the watcher unless it runs already. Log lines go to the logger of
// the newest configuration.
func (w *rateWatcher) run(logger *slog.Logger) {
	w.logger.set(logger.Handler())
	w.start.Do(func() { w.done.Go(func() { w.Run(w.ctx) }) })
}

// live is what an offer at a price knows of the moment.
func (w *rateWatcher) live(price offer.USD) offer.Live {
	current, ok := w.Current()
	if !ok {
		return offer.Live{}
	}
	return offer.Live{Satoshis: rate.Satoshis(int64(price), current), RateAt: current.At}
}

// Destruct ends the watcher and waits for it.
func (w *rateWatcher) Destruct() error {
	w.cancel()
	w.done.Wait()
	return nil
}

// release gives the reference of s back.
func (w *rateWatcher) release(s *service) error {
	if w == nil {
		return nil
	}
	w.unlisten(s)
	_, err := watchers.Delete(w.key)
	return err
}

// currentLogger passes records on to the handler set last. What outlives a
// configuration must not keep writing to that configuration's logs.
type currentLogger struct{ handler atomic.Pointer[slog.Handler] }

func (l *currentLogger) set(h slog.Handler) { l.handler.Store(&h) }

func (l *currentLogger) current() slog.Handler {
	if h := l.handler.Load(); h != nil {
		return *h
	}
	return slog.DiscardHandler
}

// Enabled implements slog.Handler.
func (l *currentLogger) Enabled(ctx context.Context, level slog.Level) bool {
	return l.current().Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (l *currentLogger) Handle(ctx context.Context, r slog.Record) error {
	return l.current().Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l *currentLogger) WithAttrs(attrs []slog.Attr) slog.Handler {
	return l.current().WithAttrs(attrs)
}

// WithGroup implements slog.Handler.
func (l *currentLogger) WithGroup(name string) slog.Handler { return l.current().WithGroup(name) }
