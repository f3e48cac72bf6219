// Package pool keeps members, such as ledgers, clients and services, that the next
// configuration reuses if it has the same settings for them.
//
// A configuration makes a Use and acquires members while it is provisioned, which does no
// I/O. When it starts, it calls Attach and runs its members. When it is cleaned up, it
// calls Release, whether it started or not. Members without a Use end in the background.
package pool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Key identifies a member by its kind and settings.
type Key [sha256.Size]byte

// String is the key in hexadecimal digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// KeyOf is equal for the same kind and equal settings, compared as JSON. The settings may
// contain secrets: the key does not reveal them.
func KeyOf(kind string, settings ...any) Key {
	text, err := json.Marshal(settings)
	if err != nil {
		panic("pool: settings of a " + kind + ": " + err.Error()) // they are plain values
	}
	return sha256.Sum256(fmt.Appendf(nil, "%d %s %s", len(kind), kind, text))
}

// Runner is a member with work in the background. Run returns when ctx has ended and its
// work is complete. It is called again if a new Use runs the member meanwhile.
type Runner interface{ Run(ctx context.Context) }

// Pool holds members and counts their users. E is the environment that a configuration
// provides, such as its logger and storage.
type Pool[E any] struct {
	mu      sync.Mutex
	entries map[Key]*entry[E]
	ending  atomic.Int64 // what Wait waits for
}

// New makes an empty pool.
func New[E any]() *Pool[E] { return &Pool[E]{entries: make(map[Key]*entry[E])} }

// waitPoll is how often Wait, which ends with the process, checks again.
const waitPoll = 2 * time.Millisecond

// Wait waits until all released members have ended, or ctx has.
func (p *Pool[E]) Wait(ctx context.Context) error {
	for p.ending.Load() > 0 {
		select {
		case <-time.After(waitPoll):
		case <-ctx.Done():
			return fmt.Errorf("payments or deliveries are still in progress: %w", ctx.Err())
		}
	}
	return nil
}

// Len is the number of members.
func (p *Pool[E]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.entries)
}

// Current is the environment of a member: that of the newest configuration that started,
// or, before any has, of the one that made the member.
type Current[E any] struct {
	current atomic.Pointer[E]
	started []*E // guarded by the pool
}

// Get never blocks.
func (c *Current[E]) Get() E { return *c.current.Load() }

func (c *Current[E]) detach(environment *E) {
	c.started = slices.DeleteFunc(c.started, func(other *E) bool { return other == environment })
	if last := len(c.started) - 1; last >= 0 {
		c.current.Store(c.started[last])
	}
}

// entry is a member. The pool guards it, but for Current.Get.
type entry[E any] struct {
	key         Key
	member      any
	environment Current[E]
	// users counts the Uses. holds counts what prevents closing: each Use, until all of
	// its later members have ended, and each Holder.
	users, holds int
	wanted       bool
	running      *work         // nil if the member does not run
	closing      chan struct{} // closed when the member is closed; nil before that begins
}

// work is a run of a member.
type work struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
}

// run runs the member if that is wanted. It needs the lock.
func (e *entry[E]) run() {
	if !e.wanted || e.running != nil {
		return
	}
	w := &work{done: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	e.running = w
	go func() {
		defer close(w.done)
		if member, ok := e.member.(Runner); ok {
			member.Run(w.ctx)
		}
	}()
}

// Use is what one configuration holds of a pool. Run is safe for concurrent use; the
// other methods are not.
type Use[E any] struct {
	pool        *Pool[E]
	environment *E
	held        []*entry[E] // dependencies before dependents; guarded by the pool
}

// Use makes the Use of a configuration.
func (p *Pool[E]) Use(environment E) *Use[E] { return &Use[E]{pool: p, environment: &environment} }

// Acquire returns the member with the key, or makes it. Its dependencies are acquired
// before it. make does no I/O and does not use the pool. An io.Closer is closed when no
// Use holds it.
func Acquire[T, E any](u *Use[E], key Key, make func(*Current[E]) (T, error)) (member T, err error) {
	p := u.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.find(key)
	if e == nil {
		e = &entry[E]{key: key}
		e.environment.current.Store(u.environment)
		if member, err = make(&e.environment); err != nil {
			return member, err
		}
		e.member, p.entries[key] = member, e
	}
	e.users++
	e.holds++
	u.held = append(u.held, e)
	return e.member.(T), nil
}

// Holder returns a function that keeps a member open until release is called, also after
// Release. held is false for a member that is closed. release returns the error of closing.
func (u *Use[E]) Holder(key Key) func() (release func() error, held bool) {
	p := u.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[key]
	return func() (release func() error, held bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if e.closing != nil {
			return nil, false
		}
		e.holds++
		p.ending.Add(1)
		return func() error {
			defer p.ending.Add(-1)
			return p.end(e)
		}, true
	}
}

// find waits while the member is being closed, because its successor may open the same
// file. It needs the lock.
func (p *Pool[E]) find(key Key) *entry[E] {
	for {
		e := p.entries[key]
		if e == nil || e.closing == nil {
			return e
		}
		p.mu.Unlock()
		<-e.closing
		p.mu.Lock()
	}
}

// Attach makes the environment the current one of all members held.
func (u *Use[E]) Attach() {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	for _, e := range u.held {
		e.environment.detach(u.environment)
		e.environment.started = append(e.environment.started, u.environment)
		e.environment.current.Store(u.environment)
	}
}

// Run runs the chosen members that do not run yet. After Release it runs none.
func (u *Use[E]) Run(chosen func(member any) bool) {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	for _, e := range u.held {
		if chosen(e.member) {
			e.wanted = true
			e.run()
		}
	}
}

// Release drops the environment and the references to all members. It does not wait:
// members without a Use stop in the background, dependents before dependencies. failed
// gets the errors of closing.
func (u *Use[E]) Release(failed func(error)) {
	p := u.pool
	p.mu.Lock()
	held := u.held
	u.held = nil
	for _, e := range held {
		e.environment.detach(u.environment)
		if e.users--; e.users > 0 {
			continue
		}
		e.wanted = false
		if e.running != nil {
			e.running.cancel()
		}
	}
	p.ending.Add(1)
	p.mu.Unlock()
	go func() {
		defer p.ending.Add(-1)
		var errs []error
		for _, e := range slices.Backward(held) {
			errs = append(errs, p.end(e))
		}
		if err := errors.Join(errs...); err != nil {
			failed(err)
		}
	}()
}

// end waits for canceled work, drops one hold, and closes the member without holds.
func (p *Pool[E]) end(e *entry[E]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := e.running; w != nil && w.ctx.Err() != nil; w = e.running {
		p.mu.Unlock()
		<-w.done
		p.mu.Lock()
		if e.running == w {
			e.running = nil
			e.run()
		}
	}
	if e.holds--; e.holds > 0 {
		return nil
	}
	e.closing = make(chan struct{})
	defer func() {
		delete(p.entries, e.key)
		close(e.closing)
	}()
	closer, ok := e.member.(io.Closer)
	if !ok {
		return nil
	}
	p.mu.Unlock()
	defer p.mu.Lock()
	return closer.Close()
}
