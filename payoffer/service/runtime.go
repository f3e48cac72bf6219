package service

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/clock"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/bitcoin"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// qrKeyPath is where the storage keeps the key of QR addresses.
const qrKeyPath = "pay_offer/qr.key"

// Environment is what a configuration provides to its offers.
type Environment struct {
	Logger slog.Handler
	// Storage keeps the secrets that instances share.
	Storage signature.Storage
	// Emit emits an event of the server, see announce.Config.
	Emit func(name string, data map[string]any) error
}

// environment is that of the configuration that started last.
type environment = pool.Current[Environment]

// Instruments count and time what offers do. All configurations share them.
type Instruments struct {
	// Transport carries the calls to upstreams of a kind, such as rpc.
	Transport func(kind string) http.RoundTripper
	// Mailed is called after each attempt to send an e-mail with the last status of the
	// mail server (0 for none) and the duration.
	Mailed func(host string, status int, took time.Duration)
	// Attempt is called with the outcome of each attempt to pay.
	Attempt func(offerID string, status x402.Status)
	// Delivery is called with the outcome of each inbound webhook.
	Delivery func(offerID, rail string, v observe.Verdict)
	// ClientIP is the address by which the rate limit counts a request.
	ClientIP func(r *http.Request) string
}

// Common is what all offers on one ledger share.
type Common struct {
	Ledger      *ledger.Ledger
	DuePoller   *ledger.DuePoller
	Clock       *clock.Clock
	Instruments *Instruments
}

// transport carries the calls to trusted upstreams of a kind. Their Date is compared with
// the clock.
func (c *Common) transport(kind string) http.RoundTripper {
	return c.Clock.Transport(c.Instruments.Transport(kind))
}

// Runtime runs the offers of one configuration.
type Runtime struct {
	*pool.Use[Environment]
	Common
	// LedgerKey and StorageKey identify the ledger and the storage.
	LedgerKey, StorageKey pool.Key
}

// NewRuntime prepares the offers of a configuration. It calls newLedger unless the ledger
// with the key is in use.
func NewRuntime(members *pool.Use[Environment], ledgerKey, storageKey pool.Key, newLedger func() (*ledger.Ledger, error), i *Instruments) (*Runtime, error) {
	r := &Runtime{Use: members, LedgerKey: ledgerKey, StorageKey: storageKey}
	r.Instruments = i
	a := acquisition{members: members}
	r.Ledger = use(&a, ledgerKey, func(e *environment) (*ledger.Ledger, error) {
		l, err := newLedger()
		if err == nil {
			l.Logger = newLogger(e)
		}
		return l, err
	})
	r.Clock = use(&a, pool.KeyOf("clock"), func(*environment) (*clock.Clock, error) { return clock.New(time.Now), nil })
	r.DuePoller = use(&a, pool.KeyOf("due poller", ledgerKey), func(*environment) (*ledger.DuePoller, error) { return ledger.NewDuePoller(r.Ledger), nil })
	return r, a.err
}

// dependencies are what one offer depends on. Each is a member of the pool of its own, so
// that a new description of an offer replaces none of them.
type dependencies struct {
	Common
	hold         func() (release func() error, held bool) // of the ledger
	keys         *signature.Keys
	qrKey        *signature.Secret
	limiter      *x402.Limiter
	ready        *readiness
	observers    map[string]observer // by rail
	hooks        map[string]observe.Hook
	addresses    addressObserver // nil without a rail that changes its address
	rates        *rate.Watcher   // nil without a Bitcoin rail
	indexes      *bitcoin.Indexes
	facilitators map[pool.Key]*x402.Facilitator
	readers      map[int64]*evm.Chain // by chain id
}

// readiness ends when an offer was open once, so that it can take payments and knows the
// addresses of receipts. New settings of the offer share it: a reload interrupts nothing.
type readiness struct {
	context.Context
	set context.CancelFunc
}

// acquisition acquires the dependencies of an offer until one cannot be made.
type acquisition struct {
	*dependencies
	members   *pool.Use[Environment]
	ledgerKey pool.Key
	settings  *Settings
	err       error
}

// use acquires a member of the pool. It returns the zero value after an error.
func use[T any](a *acquisition, key pool.Key, make func(*environment) (T, error)) (member T) {
	if a.err == nil {
		member, a.err = pool.Acquire(a.members, key, make)
	}
	return member
}

func (r *Runtime) acquire(s *Settings) (*dependencies, error) {
	d := &dependencies{
		Common: r.Common, hold: r.Holder(r.LedgerKey), observers: make(map[string]observer), hooks: make(map[string]observe.Hook),
		facilitators: make(map[pool.Key]*x402.Facilitator), readers: make(map[int64]*evm.Chain),
	}
	a := acquisition{dependencies: d, members: r.Use, ledgerKey: r.LedgerKey, settings: s}
	d.keys = use(&a, pool.KeyOf("signing keys", r.StorageKey, s.Offer.DID()), func(e *environment) (*signature.Keys, error) {
		return signature.NewKeys(signature.KeysConfig{
			DID: s.Offer.DID(), Path: s.KeysPath, Storage: storage(e), Now: time.Now, Logger: newLogger(e),
		}), nil
	})
	d.qrKey = use(&a, pool.KeyOf("qr key", r.StorageKey), func(e *environment) (*signature.Secret, error) {
		return signature.NewSecret(storage(e), qrKeyPath, "the key of QR addresses"), nil
	})
	d.limiter = use(&a, pool.KeyOf("limiter", r.LedgerKey, s.Offer.ID, s.Limit), func(*environment) (*x402.Limiter, error) {
		return x402.NewLimiter(s.Limit), nil
	})
	d.ready = use(&a, pool.KeyOf("ready", r.LedgerKey, r.StorageKey, s.Offer.ID), func(*environment) (*readiness, error) {
		ctx, set := context.WithCancel(context.Background())
		return &readiness{ctx, set}, nil
	})
	for _, rail := range s.Rails {
		o := rail.observe(&a)
		if o == nil || a.err != nil {
			continue
		}
		d.observers[rail.Name()] = o
		if addresses, ok := o.(addressObserver); ok {
			d.addresses = addresses
		}
	}
	return d, a.err
}

// railKey is the key of a rail's observer. Each offer and ledger has its own.
func (a *acquisition) railKey(rail offer.Rail, settings ...any) pool.Key {
	return pool.KeyOf("observer", a.ledgerKey, a.settings.account(rail), settings)
}

func (a *acquisition) railLogger(e *environment, rail offer.Rail) *slog.Logger {
	return newLogger(e).With("offer", a.settings.Offer.ID, "rail", rail.Name())
}

func storage(e *environment) func() signature.Storage {
	return func() signature.Storage { return e.Get().Storage }
}

// newLogger writes to the log of the configuration that started last, because members of
// the pool outlive the configuration that made them.
func newLogger(e *environment) *slog.Logger {
	return slog.New(forwarder{e, func(h slog.Handler) slog.Handler { return h }})
}

// forwarder is a slog.Handler that passes records on to the current one.
type forwarder struct {
	environment *environment
	// derive adds the attributes and groups of the logger.
	derive func(slog.Handler) slog.Handler
}

// Enabled implements slog.Handler.
func (f forwarder) Enabled(ctx context.Context, level slog.Level) bool {
	return f.environment.Get().Logger.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (f forwarder) Handle(ctx context.Context, r slog.Record) error {
	return f.derive(f.environment.Get().Logger).Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (f forwarder) WithAttrs(attrs []slog.Attr) slog.Handler {
	return forwarder{f.environment, func(h slog.Handler) slog.Handler { return f.derive(h).WithAttrs(attrs) }}
}

// WithGroup implements slog.Handler.
func (f forwarder) WithGroup(name string) slog.Handler {
	return forwarder{f.environment, func(h slog.Handler) slog.Handler { return f.derive(h).WithGroup(name) }}
}
