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
)

// outliving holds what goes on from one configuration to the next.
var outliving = pool.New[service.Environment]()

func init() {
	caddy.RegisterModule(new(App))
	caddy.OnExit(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, outliving.Patience()+exitTimeout)
		defer cancel()
		if err := outliving.Wait(ctx); err != nil {
			caddy.Log().Named("pay_offer").Error("the process ends before its settlements; they are resolved after the next start", zap.Error(err))
		}
	})
}

const (
	// exitLook is how often a start that waits looks whether the process is to end.
	exitLook = 200 * time.Millisecond
	// exitTimeout is how long the process waits at its end for everything but
	// settlements under way, which have as long as their leases.
	exitTimeout = 30 * time.Second
)

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
	emit     func(name string, data map[string]any) error
	database database
	share    *service.Runtime // nil without an offer
	demo     *Stage           // nil where the offers take money

	mu       sync.Mutex
	services []*service.Service
	offers   map[string]*service.Service // the same by their ids
	accounts map[string]ledger.Account   // of all of them, by their ids
	plays    bool                        // one of them is a demo
	// listening are the addresses of the servers that have something of the offers.
	listening []string
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
	app.ctx, app.logger = ctx, ctx.Logger()
	app.offers, app.accounts = make(map[string]*service.Service), make(map[string]ledger.Account)
	var err error
	if app.database, err = app.Ledger.database(); err != nil {
		return err
	}
	if app.Ledger.hasPassword() {
		app.logger.Warn(literalSecrets, zap.Strings("options", []string{"ledger"}))
	}
	if err := registerMetrics(ctx.GetMetricsRegistry(), app); err != nil {
		return err
	}
	value, err := ctx.App("events")
	if err != nil {
		return err
	}
	events := value.(*caddyevents.App)
	app.emit = emitter(ctx, events)
	return events.On("started", app)
}

// begin makes the share of the configuration for its first offer, which says whether
// it is a demo.
func (app *App) begin(id string, demo *Stage) (err error) {
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

// storageKey tells storages apart. One that says neither by name nor by its
// settings which it is, is another one in each configuration.
func storageKey(storage certmagic.Storage) pool.Key {
	if named, ok := storage.(fmt.Stringer); ok {
		return pool.KeyOf("storage", fmt.Sprintf("%T", storage), named.String())
	}
	if settings, err := json.Marshal(storage); err == nil && string(settings) != "{}" {
		return pool.KeyOf("storage", fmt.Sprintf("%T", storage), string(settings))
	}
	return pool.KeyOf("storage", fmt.Sprintf("%T %p", storage, storage))
}

// acquire takes an offer into use. Handlers with the same configuration, as
// Caddy makes them for a site with several addresses, share it. One that would
// share its id or an account with a different offer is refused. demo is nil for an
// offer that takes money.
func (app *App) acquire(s *service.Settings, r *resolver, demo *Stage) (*service.Service, error) {
	app.mu.Lock()
	defer app.mu.Unlock()
	if err := app.begin(s.Offer.ID, demo); err != nil {
		return nil, err
	}
	svc, err := service.Acquire(app.share, s)
	if err != nil || app.offers[s.Offer.ID] == svc {
		return svc, err
	}
	if err := app.setApart(s); err != nil {
		return nil, err
	}
	app.services, app.offers[s.Offer.ID] = append(app.services, svc), svc
	app.plays = app.plays || s.Offer.Demo
	if err := app.checkDemoIsLocal(); err != nil {
		return nil, err
	}
	countFromZero(svc)
	app.warn(svc, r)
	return svc, nil
}

// setApart refuses an offer whose receipts could not be told from another's.
func (app *App) setApart(s *service.Settings) error {
	if app.offers[s.Offer.ID] != nil {
		return fmt.Errorf("two offers have the id %q; give one of them another 'id' or base_url", s.Offer.ID)
	}
	for _, a := range s.Accounts() {
		if taken, twice := app.accounts[a.ID]; twice {
			return fmt.Errorf("the offers %q and %q both take money at the account of %s; "+
				"receipts could not be told apart, use another address", taken.Offer, s.Offer.ID, taken.Rail)
		}
		app.accounts[a.ID] = a
	}
	return nil
}

// running are the offers of the configuration.
func (app *App) running() []*service.Service {
	app.mu.Lock()
	defer app.mu.Unlock()
	return slices.Clone(app.services)
}

// Offers are the terms of the configuration's offers, also before it is started.
// The commands ask for them.
func (app *App) Offers() []*offer.Offer {
	var offers []*offer.Offer
	for _, svc := range app.running() {
		offers = append(offers, svc.Offer)
	}
	return offers
}

// Checked are the offers for 'check --live', also before they are started.
func (app *App) Checked() []diagnose.Offer {
	var offers []diagnose.Offer
	for _, svc := range app.running() {
		offers = append(offers, diagnose.Offer{Settings: svc.Settings, Links: svc.Server.Links()})
	}
	return offers
}

// Start opens the ledger, loads the keys and starts the work in the background,
// as far as that goes on from the configuration before. Offers whose ledger or
// storage cannot be reached come later by themselves, unless others take payments
// meanwhile that this configuration would replace.
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

// replaces reports whether the configuration before has its offers on another ledger,
// which is open.
func (app *App) replaces() bool {
	before := activeApp()
	return before != nil && before.share != nil && before.share.Ledger != app.share.Ledger && before.share.Ledger.IsOpen()
}

// untilExit is a context that ends with the process: Caddy ends it when the start under
// way has returned.
func untilExit(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		look := time.NewTicker(exitLook)
		defer look.Stop()
		for !caddy.Exiting() {
			select {
			case <-look.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return ctx, cancel
}

// Stop does nothing: what the next configuration does not go on with ends when
// this one is cleaned up.
func (app *App) Stop() error { return nil }

// Cleanup gives back what the configuration used. It waits for nothing, but where the
// first start of a demo was refused: what ends does so in the background, settlements
// under way first, and requests that are still being answered after a reload go on.
func (app *App) Cleanup() error {
	if app.share != nil {
		app.share.Release(func(err error) {
			caddy.Log().Named("pay_offer").Error("something could not be closed", zap.Error(err))
		})
	}
	if app.demo != nil {
		app.demo.tearDown()
	}
	return nil
}

// Handle implements caddyevents.Handler: once everything has started, it says
// where to look.
func (app *App) Handle(context.Context, caddy.Event) error {
	everStarted.Store(true)
	for _, svc := range app.running() {
		if svc.IsOpen() {
			svc.LogOpen()
		}
	}
	return nil
}

// activeApp is the app of the configuration that runs now, or nil.
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
