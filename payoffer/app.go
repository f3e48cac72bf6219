package payoffer

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func init() {
	caddy.RegisterModule(new(App))
}

// openTimeout is how long opening the ledger may take.
const openTimeout = 30 * time.Second

// App does what offers need beside answering requests: it opens the ledger,
// keeps the Bitcoin rate current, observes the rails, resolves payments whose
// outcome was left open, and announces receipts. It starts by itself with the
// first offer.
type App struct {
	// Where receipts are kept. Default: a SQLite database in Caddy's data
	// directory.
	Ledger *LedgerConfig `json:"ledger,omitempty"`

	ctx      caddy.Context
	logger   *zap.Logger
	slog     *slog.Logger
	database database
	events   *caddyevents.App
	qrKey    atomic.Pointer[[]byte]

	mu       sync.Mutex
	services []*service
	cancel   context.CancelFunc
	work     sync.WaitGroup
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "pay_offer",
		New: func() caddy.Module { return new(App) },
	}
}

// Provision sets up the app. It calls nobody and opens nothing.
func (app *App) Provision(ctx caddy.Context) error {
	app.ctx, app.logger, app.slog = ctx, ctx.Logger(), ctx.Slogger()
	var err error
	if app.database, err = app.Ledger.database(); err != nil {
		return err
	}
	if app.Ledger.literalSecret() {
		app.logger.Warn(literalSecrets, zap.Strings("options", []string{"ledger"}))
	}
	if err := registerMetrics(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	events, err := ctx.App("events")
	if err != nil {
		return err
	}
	app.events = events.(*caddyevents.App)
	return app.events.On("started", app)
}

// Start opens the ledger, loads the keys and starts the work in the background.
func (app *App) Start() error {
	app.mu.Lock()
	services := slices.Clone(app.services)
	app.mu.Unlock()
	if len(services) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(app.ctx)
	if err := app.open(ctx, services); err != nil {
		cancel()
		return err
	}
	app.cancel = cancel
	for _, svc := range services {
		svc.refresh() // QR addresses need the key, an extended key its address
		svc.publishKeys()
		if svc.watcher != nil {
			svc.watcher.run(app.slog)
		}
		app.work.Go(func() { svc.run(ctx) })
	}
	app.work.Go(func() { renewDaily(ctx, services) })
	running.add(app)
	return nil
}

// open makes the ledger and the keys ready. What it opened belongs to the pool
// and is closed with the last reference.
func (app *App) open(ctx context.Context, services []*service) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	var all []ledger.Account
	for _, svc := range services {
		all = append(all, svc.accounts()...)
	}
	book := services[0].ledger
	if err := book.Open(ctx); err != nil {
		return err
	}
	if err := book.Register(ctx, all...); err != nil {
		return err
	}
	if err := app.warnOfForgotten(ctx, book.Ledger, services); err != nil {
		return err
	}
	for _, svc := range services {
		if err := svc.announcer.Load(ctx); err != nil {
			return err
		}
		if err := svc.observers.load(ctx); err != nil {
			return err
		}
		if err := svc.signing.load(ctx); err != nil {
			return err
		}
	}
	key, err := loadQRKey(ctx, app.ctx.Storage())
	if err != nil {
		return err
	}
	app.qrKey.Store(&key)
	return nil
}

// Stop ends the work in the background and waits for it.
func (app *App) Stop() error {
	running.remove(app)
	if app.cancel != nil {
		app.cancel()
	}
	app.work.Wait()
	return nil
}

// Handle implements caddyevents.Handler: once everything has started, it says
// where to look.
func (app *App) Handle(context.Context, caddy.Event) error {
	for _, svc := range app.offers() {
		app.logger.Info("the offer is open",
			zap.String("pay", svc.offer.URL(offer.PathMethods)),
			zap.String("site", svc.offer.SitePage()))
	}
	return nil
}

// loadedQRKey is the key of QR addresses, nil until the app has started.
func (app *App) loadedQRKey() []byte {
	if key := app.qrKey.Load(); key != nil {
		return *key
	}
	return nil
}

// renewDaily renders documents that expire again.
func renewDaily(ctx context.Context, services []*service) {
	ticker := time.NewTicker(24 * time.Hour)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for _, svc := range services {
				svc.server.Renew(now)
			}
		}
	}
}

// Interface guards
var (
	_ caddy.App           = (*App)(nil)
	_ caddy.Provisioner   = (*App)(nil)
	_ caddyevents.Handler = (*App)(nil)
)
