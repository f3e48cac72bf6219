package payoffer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// sharedPool has what configurations share over a reload: *member values, by service.KeyOf.
var sharedPool = caddy.NewUsagePool()

// pooling is held while members are looked up or made, which does no I/O.
var pooling sync.Mutex

// unended counts what is left of configurations that have ended.
var unended atomic.Int64

// awaitUnended waits until nothing is left of configurations that have ended, or ctx ends.
func awaitUnended(ctx context.Context) error {
	for unended.Load() > 0 {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("payments or deliveries are still in progress: %w", ctx.Err())
		}
	}
	return nil
}

// pooled is the number of members.
func pooled() (members int) {
	sharedPool.Range(func(any, any) bool {
		members++
		return true
	})
	return members
}

// member is a value of the pool with its work in the background.
type member struct {
	key     string
	value   any
	start   sync.Once
	cancel  context.CancelFunc // nil before start
	running sync.WaitGroup
}

// run runs a service.Runner from the first call on.
func (m *member) run() {
	m.start.Do(func() {
		if runner, ok := m.value.(service.Runner); ok {
			var ctx context.Context
			ctx, m.cancel = context.WithCancel(context.Background())
			m.running.Go(func() { runner.Run(ctx) })
		}
	})
}

// Destruct implements caddy.Destructor. It waits for the end of the work.
func (m *member) Destruct() error {
	if m.cancel != nil {
		m.cancel()
	}
	m.running.Wait()
	if closer, ok := m.value.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// hold adds a reference, also after those of the configurations are released. held is false if the member has ended.
func (m *member) hold() (release func(), held bool) {
	pooling.Lock()
	defer pooling.Unlock()
	value, _, err := sharedPool.LoadOrNew(m.key, func() (caddy.Destructor, error) { return nil, errors.New("it has ended") })
	if err != nil {
		return nil, false
	}
	unended.Add(1)
	release = func() {
		defer unended.Add(-1)
		m.drop()
	}
	if value != m {
		go release() // it may be the last one of the successor
		return nil, false
	}
	return release, true
}

// drop drops one reference to the member with the key.
func (m *member) drop() {
	if _, err := sharedPool.Delete(m.key); err != nil {
		caddy.Log().Named("pay_offer").Error("a service cannot be closed", zap.Error(err),
			zap.String("hint", "restart the server if its ledger stays locked"))
	}
}

// references are those of one configuration to members, dependencies before dependents.
type references []*member

// share returns the value of the pool with a key, which is made if there is none. It implements service.Config.Share.
func (r *references) share(key string, made any) any { return r.add(key, made).value }

func (r *references) add(key string, made any) *member {
	pooling.Lock()
	defer pooling.Unlock()
	value, _, _ := sharedPool.LoadOrNew(key, func() (caddy.Destructor, error) { return &member{key: key, value: made}, nil })
	m := value.(*member)
	*r = append(*r, m)
	return m
}

// run runs all members that do not run yet.
func (r *references) run() {
	for _, m := range *r {
		m.run()
	}
}

// release drops all references. Members without one end, dependents before dependencies.
func (r *references) release() {
	for _, m := range slices.Backward(*r) {
		m.drop()
	}
}

// sharedLedger is a ledger that configurations share, with the poller of its due work.
type sharedLedger struct {
	*ledger.Ledger
	*ledger.DuePoller
	before <-chan struct{} // closed with the handle before; nil for the first one
	closed chan struct{}
}

// closing has the channel that is closed with the newest handle of a ledger, by key. Configurations are provisioned one after
// the other.
var closing = make(map[string]chan struct{})

// shareLedger returns the ledger of a database, and its member.
func (r *references) shareLedger(d database, logger *slog.Logger) (*sharedLedger, *member, error) {
	handle, err := d.handle()
	if err != nil {
		return nil, nil, err
	}
	handle.Logger = logger
	made := &sharedLedger{Ledger: handle, DuePoller: ledger.NewDuePoller(handle), closed: make(chan struct{})}
	m := r.add(d.key(), made)
	if m.value == any(made) {
		made.before, closing[m.key] = closing[m.key], made.closed
	}
	return m.value.(*sharedLedger), m, nil
}

// Open opens the ledger when the handle before is closed. Closing any handle of a file drops the locks of its process
// (fcntl(2)), and a member leaves the pool before it has ended.
func (s *sharedLedger) Open(ctx context.Context) error {
	if s.before != nil {
		select {
		case <-s.before:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Ledger.Open(ctx)
}

// Close implements io.Closer.
func (s *sharedLedger) Close() error {
	if s.before != nil {
		<-s.before // so that closed says it of all handles
	}
	defer close(s.closed)
	return s.Ledger.Close()
}

// loadCore writes to the log of a configuration, and when that has ended to the log of the running one: what outlives a
// configuration, such as the ledger or a settlement, still has to be heard.
type loadCore struct {
	zapcore.Core
	app    *App
	fields []zapcore.Field
}

func (app *App) slogger() *slog.Logger {
	core := loadCore{Core: app.logger.Core(), app: app}
	return slog.New(zapslog.NewHandler(core, zapslog.WithName("pay_offer"), zapslog.AddStacktraceAt(slog.Level(127))))
}

func (l loadCore) current() zapcore.Core {
	if app := l.app.current(); app.ctx.Err() == nil {
		return app.logger.Core()
	}
	return caddy.Log().Core()
}

// Enabled implements zapcore.Core.
func (l loadCore) Enabled(level zapcore.Level) bool { return l.current().Enabled(level) }

// With implements zapcore.Core.
func (l loadCore) With(fields []zapcore.Field) zapcore.Core {
	return loadCore{l.Core, l.app, append(slices.Clip(l.fields), fields...)}
}

// Check implements zapcore.Core. The core that it adds writes the entry.
func (l loadCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return l.current().With(l.fields).Check(e, to)
}
