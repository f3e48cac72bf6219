package payoffer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	_ "github.com/payoffer/caddy-pay-offer/payoffer/command" // registers the commands
	"github.com/payoffer/caddy-pay-offer/payoffer/diagnose"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/site"
)

func init() {
	caddy.RegisterModule(new(App))
	caddy.OnExit(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, ledger.LongestLease+exitTimeout)
		defer cancel()
		if err := awaitUnended(ctx); err != nil {
			caddy.Log().Named("pay_offer").Error("process ends with unfinished settlements", zap.Error(err),
				zap.String("hint", "the server resolves them after the next start"))
		}
	})
}

const (
	// exitPoll is how often a waiting start checks whether the process ends.
	exitPoll = 200 * time.Millisecond
	// exitTimeout bounds the wait at the end of the process. Settlements under way, which
	// end with their leases, have LongestLease in addition.
	exitTimeout = 30 * time.Second
)

// App does the background work of the offers: it opens the ledger, observes the rails,
// resolves payments with an unknown outcome, and sends notifications. The first offer
// starts it.
type App struct {
	// Where receipts are stored. Default: a SQLite database in Caddy's data directory.
	Ledger *LedgerConfig `json:"ledger,omitempty"`

	ctx      caddy.Context
	logger   *zap.Logger
	emit     func(name string, data map[string]any) error
	database database
	storage  certmagic.Storage
	shared   references
	runtime  *service.Runtime // nil without an offer
	demo     *Sandbox         // nil unless the offer is a demo

	// What the modules register in their Provision, which is never concurrent.
	offers   []*service.Service
	accounts map[string]ledger.Account // of all offers, by their ids
	gates    []*Gate
	// listening are the addresses of the servers with a module of this package.
	listening []string

	acquiring sync.Once
	err       error // of acquire
	services  atomic.Pointer[[]*service.Service]
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "pay_offer",
		New: func() caddy.Module { return new(App) },
	}
}

// Provision sets up the app. It makes no network call and opens no database.
func (app *App) Provision(ctx caddy.Context) error {
	app.ctx, app.logger = ctx, ctx.Logger()
	ctx.FileSystems().Register(pageFileSystem, site.FS) // of this configuration only
	app.accounts = make(map[string]ledger.Account)
	var err error
	if app.database, err = app.Ledger.database(); err != nil {
		return err
	}
	if app.Ledger.hasPassword() {
		app.logger.Warn("secrets are in the configuration itself", zap.Strings("options", []string{"ledger"}), zap.String("hint", literalSecretsHint))
	}
	if err := registerMetrics(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	value, err := ctx.App("events")
	if err != nil {
		return err
	}
	events := value.(*caddyevents.App)
	app.emit = func(name string, data map[string]any) error {
		events.Emit(ctx, name, data)
		return ctx.Err() // handlers of a configuration that ends may not have been called; the next one emits it again
	}
	return events.On("started", app)
}

// prepare makes the runtime for the first offer, which says whether it is a demo.
func (app *App) prepare(id string, demo *Sandbox) (err error) {
	if app.runtime != nil {
		return nil
	}
	database := app.database
	app.storage = app.ctx.Storage()
	if app.demo = demo; demo != nil {
		if database, app.storage, err = demo.files(id); err != nil {
			return err
		}
	}
	logger := app.slogger()
	shared, member, err := app.shared.shareLedger(database, logger)
	if err != nil {
		return err
	}
	app.runtime = service.NewRuntime(service.Config{
		Ledger: shared.Ledger, DuePoller: shared.DuePoller, Open: shared.Open, Hold: member.hold,
		LedgerKey: database.key(), StorageKey: storageKey(app.storage), Storage: func() signature.Storage { return app.current().storage },
		Share: app.shared.share, Emit: app.emit, Exiting: caddy.Exiting, Instruments: &instruments, Logger: logger,
	})
	return nil
}

// current returns the app until its configuration has ended, and then that of the running configuration, if it has offers.
func (app *App) current() *App {
	if app.ctx.Err() != nil {
		if active := activeApp(); active != nil && active.runtime != nil {
			return active
		}
	}
	return app
}

// storageKey identifies a storage by its name or its settings. A storage without both is
// a new one in each configuration.
func storageKey(storage certmagic.Storage) string {
	if named, ok := storage.(fmt.Stringer); ok {
		return service.KeyOf("storage", fmt.Sprintf("%T", storage), named.String())
	}
	if settings, err := json.Marshal(storage); err == nil && string(settings) != "{}" {
		return service.KeyOf("storage", fmt.Sprintf("%T", storage), string(settings))
	}
	return service.KeyOf("storage", fmt.Sprintf("%T %p", storage, storage))
}

// running returns the services of the configuration; none before they are acquired.
func (app *App) running() []*service.Service {
	if services := app.services.Load(); services != nil {
		return *services
	}
	return nil
}

// Offers returns the offers of the configuration, also before it starts.
func (app *App) Offers() []*offer.Offer {
	_ = app.Acquire() // Start and the commands report the error
	var offers []*offer.Offer
	for _, svc := range app.running() {
		offers = append(offers, svc.Offer)
	}
	return offers
}

// Checked returns the offers for 'check --live', after Acquire.
func (app *App) Checked() []diagnose.Offer {
	var offers []diagnose.Offer
	for _, svc := range app.running() {
		offers = append(offers, diagnose.Offer{Settings: svc.Settings, Links: svc.Server.Links()})
	}
	return offers
}

// Start opens the ledger, loads the keys and starts the background work. If the ledger or
// the storage cannot be reached, it retries in the background, unless the running
// configuration has offers on another ledger: then the start fails.
func (app *App) Start() error {
	err := app.Acquire()
	services := app.running()
	if err != nil || len(services) == 0 {
		return err
	}
	app.shared.run()
	ctx, cancel := untilExit(app.ctx)
	defer cancel()
	return app.runtime.Start(ctx, app.replaces())
}

// replaces reports whether the running configuration has its offers on another ledger,
// which is open.
func (app *App) replaces() bool {
	before := activeApp()
	return before != nil && before.runtime != nil && before.runtime.Ledger != app.runtime.Ledger && before.runtime.Ledger.IsOpen()
}

// untilExit returns a context that ends when the process is about to end.
func untilExit(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		poll := time.NewTicker(exitPoll)
		defer poll.Stop()
		for !caddy.Exiting() {
			select {
			case <-poll.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return ctx, cancel
}

// Stop ends the work in the background. It does not wait.
func (app *App) Stop() error {
	if app.runtime != nil {
		app.runtime.Stop()
	}
	return nil
}

// Cleanup releases what the configuration used. Unused parts end in the background,
// after settlements under way and requests that are still answered. It waits only if
// the first start of a demo was refused.
func (app *App) Cleanup() error {
	// Waits for a request that acquires; a later request acquires nothing.
	app.acquiring.Do(func() { app.err = errors.New("the configuration has ended") })
	unended.Add(1)
	go func() {
		defer unended.Add(-1)
		if app.runtime != nil {
			app.runtime.Stop() // Caddy calls Stop only after a start
			app.runtime.Wait()
		}
		app.shared.release()
	}()
	if app.demo != nil {
		app.demo.tearDown()
	}
	return nil
}

// Handle implements caddyevents.Handler. It logs the addresses of the offers after the
// start.
func (app *App) Handle(context.Context, caddy.Event) error {
	everStarted.Store(true)
	for _, svc := range app.running() {
		if svc.IsOpen() {
			svc.LogOpen()
		}
	}
	return nil
}

// activeApp returns the app of the running configuration, or nil.
func activeApp() *App {
	value, err := caddy.ActiveContext().AppIfConfigured("pay_offer")
	if err != nil {
		return nil
	}
	return value.(*App)
}

// Interface guards
var (
	_ caddy.App           = (*App)(nil)
	_ caddy.Provisioner   = (*App)(nil)
	_ caddy.CleanerUpper  = (*App)(nil)
	_ caddyevents.Handler = (*App)(nil)
)
