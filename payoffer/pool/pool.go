// Package pool holds what outlives a configuration: members that the next
// configuration goes on with, because it has the same settings for them.
//
// A configuration's life decides the calls. While it is provisioned it makes a
// Use and acquires members, which calls nobody and opens nothing. When it
// starts it attaches its host and runs them, each when what it needs is ready. When it is cleaned up it releases
// the Use, whether it ever started or not. What no other Use holds ends in the
// background: nobody waits for it but the end of the process.
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

// Key names a member by its kind and settings.
type Key [sha256.Size]byte

// String is the key in hexadecimal digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// KeyOf is the key of a member: equal for the same kind and equal settings,
// which are compared as JSON. They may hold secrets, of which the key tells
// nothing.
func KeyOf(kind string, settings ...any) Key {
	text, err := json.Marshal(settings)
	if err != nil {
		panic("pool: settings of a " + kind + ": " + err.Error()) // they are plain values
	}
	return sha256.Sum256(fmt.Appendf(nil, "%d %s %s", len(kind), kind, text))
}

// Runner is a member with work in the background. Run returns soon after ctx
// has ended, once what is under way has come to its end; a member that is taken
// up again meanwhile is run again.
type Runner interface{ Run(ctx context.Context) }

// Beginner is a Runner that needs nobody who waits: Begin calls ended when Run would
// return.
type Beginner interface {
	Begin(ctx context.Context, ended func())
}

// Patient is a Runner that may go on for a while after ctx has ended.
type Patient interface{ Patience() time.Duration }

// Pool holds members with a number of users each. H is what a configuration
// lends them: its logger, its storage and the like.
type Pool[H any] struct {
	mu      sync.Mutex
	entries map[Key]*entry[H]
	// ending counts what Wait waits for, and idle is closed when it falls to 0. Unlike a
	// sync.WaitGroup it may grow meanwhile.
	ending int
	idle   chan struct{}
}

// New makes an empty pool.
func New[H any]() *Pool[H] { return &Pool[H]{entries: make(map[Key]*entry[H])} }

// Wait waits until everything that was released has ended, or ctx has. It is
// for the end of the process.
func (p *Pool[H]) Wait(ctx context.Context) error {
	p.mu.Lock()
	ending, idle := p.ending, p.idle
	p.mu.Unlock()
	if ending == 0 {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("something still has work under way: %w", ctx.Err())
	}
}

// begin has Wait wait for one more end. It needs the lock.
func (p *Pool[H]) begin() {
	if p.ending++; p.ending == 1 {
		p.idle = make(chan struct{})
	}
}

func (p *Pool[H]) ended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending--; p.ending == 0 {
		close(p.idle)
	}
}

// Patience is the longest that a member which has not ended may take to.
func (p *Pool[H]) Patience() (longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		if patient, waits := e.member.(Patient); waits {
			longest = max(longest, patient.Patience())
		}
	}
	return longest
}

// Len is the number of members held.
func (p *Pool[H]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.entries)
}

// InUse are the members of a type that a configuration uses, from when it is
// provisioned until it is cleaned up.
func InUse[T, H any](p *Pool[H]) (members []T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		if member, is := e.member.(T); is && e.users > 0 {
			members = append(members, member)
		}
	}
	return members
}

// Hosts are those who use one member. The newest that has started is the
// current one; before any has, the one that the member was made for.
type Hosts[H any] struct {
	current atomic.Pointer[H]
	started []*H // guarded by the pool
}

// Current is the host to use now. It never blocks.
func (h *Hosts[H]) Current() H { return *h.current.Load() }

func (h *Hosts[H]) detach(host *H) {
	h.started = slices.DeleteFunc(h.started, func(other *H) bool { return other == host })
	if last := len(h.started) - 1; last >= 0 {
		h.current.Store(h.started[last])
	}
}

// entry is a member in the pool, which guards everything but hosts.current.
type entry[H any] struct {
	key    Key
	member any
	hosts  Hosts[H]
	// users are the uses that run the member, and holds what keeps it from being
	// closed: each use, until all that was made of the member has ended, and each Holder.
	users, holds int
	// wanted says that it is to run; running is the work under way, if any.
	wanted  bool
	running *work
	// closing is closed when the member is gone for good; nil before.
	closing chan struct{}
}

// work is a Runner at work.
type work struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
}

// run starts the member's work if it is wanted. It needs the lock.
func (e *entry[H]) run() {
	runner, runs := e.member.(Runner)
	beginner, begins := e.member.(Beginner)
	if !runs && !begins || !e.wanted || e.running != nil {
		return
	}
	w := &work{done: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	e.running = w
	ended := func() { close(w.done) }
	if begins {
		beginner.Begin(w.ctx, ended)
		return
	}
	go func() {
		defer ended()
		runner.Run(w.ctx)
	}()
}

// Use is one configuration's share of a pool. Run is safe at any time; the other
// methods are not for concurrent use.
type Use[H any] struct {
	pool *Pool[H]
	host *H
	held []*entry[H] // each before those that were made of it; guarded by the pool
}

// Use begins a share for a configuration that lends host.
func (p *Pool[H]) Use(host H) *Use[H] { return &Use[H]{pool: p, host: &host} }

// Acquire takes a member into use: the one with the key, or a new one. What it
// is made of is to be acquired before it. make calls nobody, and does not use
// the pool. A member that is an io.Closer is closed when nobody uses it.
func Acquire[T, H any](u *Use[H], key Key, make func(*Hosts[H]) (T, error)) (member T, err error) {
	p := u.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.find(key)
	if e == nil {
		e = &entry[H]{key: key}
		e.hosts.current.Store(u.host)
		if member, err = make(&e.hosts); err != nil {
			return member, err
		}
		e.member, p.entries[key] = member, e
	}
	e.users++
	e.holds++
	u.held = append(u.held, e)
	return e.member.(T), nil
}

// Holder returns what holds a member in use, also after Release: the member is not
// closed before release is called, which returns the error if that closes it. held is
// false for a member that is closed already.
func (u *Use[H]) Holder(key Key) func() (release func() error, held bool) {
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
		p.begin()
		return func() error {
			defer p.ended()
			return p.end(e)
		}, true
	}
}

// find waits for a member that is being closed to be gone: what follows it
// would open the same again. It needs the lock.
func (p *Pool[H]) find(key Key) *entry[H] {
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

// Attach makes the host the current one of all members in use.
func (u *Use[H]) Attach() {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	for _, e := range u.held {
		e.hosts.detach(u.host)
		e.hosts.started = append(e.hosts.started, u.host)
		e.hosts.current.Store(u.host)
	}
}

// Run runs the chosen of the members in use that do not run yet: none after Release.
func (u *Use[H]) Run(chosen func(member any) bool) {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	for _, e := range u.held {
		if chosen(e.member) {
			e.wanted = true
			e.run()
		}
	}
}

// Release takes the host away and gives all members back. It does not wait:
// those that nobody uses any more end in the background, each before what it
// was made of. Failed tells of one that could not be closed.
func (u *Use[H]) Release(failed func(error)) {
	p := u.pool
	p.mu.Lock()
	held := u.held
	u.held = nil
	for _, e := range held {
		e.hosts.detach(u.host)
		if e.users--; e.users > 0 {
			continue
		}
		e.wanted = false
		if e.running != nil {
			e.running.cancel()
		}
	}
	p.begin()
	p.mu.Unlock()
	go func() {
		defer p.ended()
		var errs []error
		for _, e := range slices.Backward(held) {
			errs = append(errs, p.end(e))
		}
		if err := errors.Join(errs...); err != nil {
			failed(err)
		}
	}()
}

// end waits for work that was ended, gives up one hold, and closes the member that
// has no other.
func (p *Pool[H]) end(e *entry[H]) error {
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
	closer, closes := e.member.(io.Closer)
	if !closes {
		return nil
	}
	p.mu.Unlock()
	defer p.mu.Lock()
	return closer.Close()
}
