package payoffer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	_ "github.com/payoffer/caddy-pay-offer/payoffer/command" // registers the commands
	"github.com/payoffer/caddy-pay-offer/payoffer/diagnose"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/site"
)

// outliving contains what configurations share over a reload.
var outliving = pool.New[service.Environment]()

func init() {
	caddy.RegisterModule(new(App))
	caddy.OnExit(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, outliving.Patience()+exitTimeout)
		defer cancel()
		if err := outliving.Wait(ctx); err != nil {
			caddy.Log().Named("pay_offer").Error("process ends with unfinished settlements", zap.Error(err),
				zap.String("hint", "the server resolves them after the next start"))
		}
	})
}

const (
	// exitPoll is how often a waiting start checks whether the process ends.
	exitPoll = 200 * time.Millisecond
	// exitTimeout bounds the wait at the end of the process. Settlements under way have
	// until the end of their leases in addition.
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
	share    *service.Runtime // nil without an offer
	demo     *Sandbox         // nil unless the offer is a demo

	mu       sync.Mutex
	services []*service.Service
	offers   map[string]*service.Service // by their ids
	accounts map[string]ledger.Account   // of all offers, by their ids
	// listening are the addresses of the servers with a module of this package.
	listening []string
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
	app.offers, app.accounts = make(map[string]*service.Service), make(map[string]ledger.Account)
	var err error
	if app.database, err = app.Ledger.database(); err != nil {
		return err
	}
	if app.Ledger.hasPassword() {
		app.logger.Warn("secrets are in the configuration itself", zap.Strings("options", []string{"ledger"}), zap.String("hint", literalSecretsHint))
	}
	if err := registerMetrics(ctx.GetMetricsRegistry(), app); err != nil {
		return err
	}
	value, err := ctx.App("events")
	if err != nil {
		return err
	}
	events := value.(*caddyevents.App)
	app.emit = newEmitter(ctx, events)
	return events.On("started", app)
}

// prepare makes the runtime for the first offer, which says whether it is a demo.
func (app *App) prepare(id string, demo *Sandbox) (err error) {
	if app.share != nil {
		return nil
	}
	database, storage := app.database, app.ctx.Storage()
	if app.demo = demo; demo != nil {
		if database, storage, err = demo.files(id); err != nil {
			return err
		}
	}
	app.share, err = service.NewRuntime(outliving.Use(service.Environment{Logger: app.ctx.Slogger().Handler(), Storage: storage, Emit: app.emit}),
		database.key(), storageKey(storage), database.handle, &instruments)
	return err
}

// storageKey identifies a storage by its name or its settings. A storage without both is
// a new one in each configuration.
func storageKey(storage certmagic.Storage) pool.Key {
	if named, ok := storage.(fmt.Stringer); ok {
		return pool.KeyOf("storage", fmt.Sprintf("%T", storage), named.String())
	}
	if settings, err := json.Marshal(storage); err == nil && string(settings) != "{}" {
		return pool.KeyOf("storage", fmt.Sprintf("%T", storage), string(settings))
	}
	return pool.KeyOf("storage", fmt.Sprintf("%T %p", storage, storage))
}

// acquire returns the service of an offer. Handlers with the same configuration, which
// Caddy makes for a site with several addresses, share it. Another offer with the same id
// or account is refused.
func (app *App) acquire(s *service.Settings, r *resolver, demo *Sandbox) (*service.Service, error) {
	app.mu.Lock()
	defer app.mu.Unlock()
	if err := app.prepare(s.Offer.ID, demo); err != nil {
		return nil, err
	}
	svc, err := service.Acquire(app.share, s)
	if err != nil || app.offers[s.Offer.ID] == svc {
		return svc, err
	}
	if err := app.checkUnique(s); err != nil {
		return nil, err
	}
	app.services, app.offers[s.Offer.ID] = append(app.services, svc), svc
	if err := app.checkDemoIsLocal(); err != nil {
		return nil, err
	}
	countFromZero(svc)
	app.warn(svc, r)
	return svc, nil
}

// checkUnique refuses an offer whose receipts could belong to another offer.
func (app *App) checkUnique(s *service.Settings) error {
	if app.offers[s.Offer.ID] != nil {
		return fmt.Errorf("two offers have the id %q; give one of them another id, such as 'id second-offer'", s.Offer.ID)
	}
	for _, a := range s.Accounts() {
		if taken, twice := app.accounts[a.ID]; twice {
			return fmt.Errorf("the offers %q and %q both receive money at the account of %s; use another address for one of them",
				taken.Offer, s.Offer.ID, taken.Rail)
		}
		app.accounts[a.ID] = a
	}
	return nil
}

// running returns the services of the configuration.
func (app *App) running() []*service.Service {
	app.mu.Lock()
	defer app.mu.Unlock()
	return slices.Clone(app.services)
}

// Offers returns the offers of the configuration, also before it starts. The commands use
// it.
func (app *App) Offers() []*offer.Offer {
	var offers []*offer.Offer
	for _, svc := range app.running() {
		offers = append(offers, svc.Offer)
	}
	return offers
}

// Checked returns the offers for 'check --live', also before they start.
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
	services := app.running()
	if len(services) == 0 {
		return nil
	}
	app.share.Attach()
	ctx, cancel := untilExit(app.ctx)
	defer cancel()
	return app.share.Start(ctx, app.replaces(), services...)
}

// replaces reports whether the running configuration has its offers on another ledger,
// which is open.
func (app *App) replaces() bool {
	before := activeApp()
	return before != nil && before.share != nil && before.share.Ledger != app.share.Ledger && before.share.Ledger.IsOpen()
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

// Stop does nothing. Cleanup ends what the next configuration does not share.
func (app *App) Stop() error { return nil }

// Cleanup releases what the configuration used. Unused parts end in the background,
// after settlements under way and requests that are still answered. It waits only if
// the first start of a demo was refused.
func (app *App) Cleanup() error {
	if app.share != nil {
		app.share.Release(func(err error) {
			caddy.Log().Named("pay_offer").Error("a service cannot be closed", zap.Error(err), zap.String("hint", "restart the server if its ledger stays locked"))
		})
	}
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
