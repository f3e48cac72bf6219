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
	value   any
	start   sync.Once
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// run runs a service.Runner from the first call on.
func (m *member) run() {
	m.start.Do(func() {
		if runner, ok := m.value.(service.Runner); ok {
			m.running.Go(func() { runner.Run(m.ctx) })
		}
	})
}

// Destruct implements caddy.Destructor. It waits for the end of the work.
func (m *member) Destruct() error {
	m.cancel()
	m.start.Do(func() {})
	m.running.Wait()
	if closer, ok := m.value.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// references are those of one configuration, one for each member that it uses.
type references struct {
	members map[string]*member
	keys    []string // dependencies before dependents
}

// share returns the value of the pool with a key, which is made if there is none. It implements service.Config.Share.
func (r *references) share(key string, made any) any {
	pooling.Lock()
	defer pooling.Unlock()
	value, _, _ := sharedPool.LoadOrNew(key, func() (caddy.Destructor, error) {
		m := &member{value: made}
		m.ctx, m.cancel = context.WithCancel(context.Background())
		if l, ok := made.(*sharedLedger); ok {
			l.before, closing[key] = closing[key], l.closed
		}
		return m, nil // never an error
	})
	if r.members == nil {
		r.members = make(map[string]*member)
	}
	m := value.(*member)
	r.members[key], r.keys = m, append(r.keys, key)
	return m.value
}

// run runs all members that do not run yet.
func (r *references) run() {
	for _, m := range r.members {
		m.run()
	}
}

// hold returns a function that adds a reference to a member which this configuration has, also after release. held is
// false if the member has ended.
func (r *references) hold(key string) func() (release func(), held bool) {
	own := r.members[key]
	return func() (release func(), held bool) {
		pooling.Lock()
		defer pooling.Unlock()
		value, _, err := sharedPool.LoadOrNew(key, func() (caddy.Destructor, error) { return nil, errors.New("it has ended") })
		if err != nil {
			return nil, false
		}
		unended.Add(1)
		release = func() {
			defer unended.Add(-1)
			drop(key)
		}
		if value != own {
			go release() // it may be the last one of the successor
			return nil, false
		}
		return release, true
	}
}

// release drops all references. Members without one end, dependents before dependencies.
func (r *references) release() {
	for _, key := range slices.Backward(r.keys) {
		drop(key)
	}
}

// drop drops one reference to a member.
func drop(key string) {
	if _, err := sharedPool.Delete(key); err != nil {
		caddy.Log().Named("pay_offer").Error("a service cannot be closed", zap.Error(err), zap.String("hint", "restart the server if its ledger stays locked"))
	}
}

// sharedLedger is a ledger that configurations share, with the poller of its due work.
type sharedLedger struct {
	*ledger.Ledger
	*ledger.DuePoller
	before <-chan struct{} // closed with the handle before; nil for the first one
	closed chan struct{}
}

// closing has the channel that is closed with the newest handle of a ledger, by key. pooling guards it.
var closing = make(map[string]chan struct{})

// shareLedger returns the ledger of a database.
func (r *references) shareLedger(d database, logger *slog.Logger) (*sharedLedger, error) {
	l, err := d.handle()
	if err != nil {
		return nil, err
	}
	l.Logger = logger
	made := &sharedLedger{Ledger: l, DuePoller: ledger.NewDuePoller(l), closed: make(chan struct{})}
	return r.share(d.key(), made).(*sharedLedger), nil
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
