package pool_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
)

// all chooses every member.
func all(any) bool { return true }

// member tells what happens to it.
type member struct {
	name        string
	environment *pool.Current[string]
	events      chan string
	// leave, if set, is waited for before Run returns.
	leave chan struct{}
	err   error
}

func (m *member) Run(ctx context.Context) {
	m.events <- "runs " + m.name
	<-ctx.Done()
	m.events <- "ends " + m.name
	if m.leave != nil {
		<-m.leave
	}
}

func (m *member) Close() error {
	m.events <- "closed " + m.name
	return m.err
}

// bench is a pool with the events of its members.
type bench struct {
	*pool.Pool[string]
	t      *testing.T
	events chan string
}

func newBench(t *testing.T) *bench {
	return &bench{pool.New[string](), t, make(chan string, 100)}
}

func (b *bench) acquire(u *pool.Use[string], name string, change ...func(*member)) *member {
	b.t.Helper()
	found, err := pool.Acquire(u, pool.KeyOf("member", name), func(environment *pool.Current[string]) (*member, error) {
		m := &member{name: name, environment: environment, events: b.events}
		for _, c := range change {
			c(m)
		}
		return m, nil
	})
	require.NoError(b.t, err)
	return found
}

func (b *bench) start(u *pool.Use[string]) {
	u.Attach()
	u.Run(all)
}

func (b *bench) release(u *pool.Use[string]) {
	u.Release(func(err error) { b.events <- "failed: " + err.Error() })
}

// expect reads the next events, in their order.
func (b *bench) expect(events ...string) {
	b.t.Helper()
	for _, want := range events {
		require.Equal(b.t, want, <-b.events)
	}
}

// quiet requires that nothing else happened by the time all has ended.
func (b *bench) quiet() {
	b.t.Helper()
	require.NoError(b.t, b.Wait(b.t.Context()))
	require.Empty(b.t, b.events)
}

func TestEqualSettingsAreOneMemberForAllConfigurations(t *testing.T) {
	b := newBench(t)
	first, second := b.Use("first"), b.Use("second")
	one := b.acquire(first, "a")
	require.Same(t, one, b.acquire(first, "a"))
	require.Same(t, one, b.acquire(second, "a"))
	require.NotSame(t, one, b.acquire(second, "b"))
	require.Equal(t, 2, b.Len())

	require.NotEqual(t, pool.KeyOf("a", "b"), pool.KeyOf("a", "b", ""))
	require.NotEqual(t, pool.KeyOf("a", "b", "c"), pool.KeyOf("a", "b,c"))
	require.NotEqual(t, pool.KeyOf("a", "b"), pool.KeyOf("b", "b"))
	type settings struct{ URLs []string }
	require.Equal(t, pool.KeyOf("a", settings{[]string{"x"}}), pool.KeyOf("a", settings{[]string{"x"}}))
	require.Panics(t, func() { pool.KeyOf("a", func() {}) })
}

// A configuration that replaces another one with equal settings interrupts
// nothing.
func TestWorkGoesOnAcrossConfigurationsAndEndsWithTheLast(t *testing.T) {
	b := newBench(t)
	first := b.Use("first")
	b.acquire(first, "part")
	b.acquire(first, "whole")
	b.start(first)
	require.ElementsMatch(t, []string{"runs part", "runs whole"}, []string{<-b.events, <-b.events})

	second := b.Use("second")
	b.acquire(second, "part")
	b.acquire(second, "whole")
	b.start(second)
	b.release(first)
	b.quiet()

	b.release(second)
	order := make(map[string]int)
	for n := range 4 {
		order[<-b.events] = n
	}
	require.Less(t, order["ends whole"], order["closed whole"])
	require.Less(t, order["ends part"], order["closed part"])
	require.Less(t, order["closed whole"], order["closed part"], "a member may use its parts until it is closed")
	b.quiet()
	require.Zero(t, b.Len())
}

// Two reloads: the first ends what uses a part, the second gives the part itself back.
func TestAPartIsNotClosedBeforeWhatUsesIt(t *testing.T) {
	b := newBench(t)
	leave := make(chan struct{})
	first := b.Use("first")
	part := b.acquire(first, "part")
	whole := b.acquire(first, "whole", func(m *member) { m.leave = leave })
	first.Attach()
	first.Run(func(m any) bool { return m == any(whole) })
	b.expect("runs whole")
	second := b.Use("second")
	b.acquire(second, "last") // is closed after the part would be
	b.acquire(second, "part")
	b.release(first)
	b.expect("ends whole") // and waits for what is under way
	b.release(second)
	b.expect("closed last")

	third := b.Use("third")
	require.Same(t, part, b.acquire(third, "part"))
	require.Same(t, whole, b.acquire(third, "whole"))
	b.release(third)
	close(leave)
	b.expect("closed whole", "closed part")
	b.quiet()
	require.Zero(t, b.Len())
}

// Work of a request goes on after all configurations have ended.
func TestAMemberIsClosedWhenItsLastHolderReleasesIt(t *testing.T) {
	b := newBench(t)
	use := b.Use("host")
	b.acquire(use, "last")
	b.acquire(use, "a", func(m *member) { m.err = errors.New("the disk is full") })
	hold := use.Holder(pool.KeyOf("member", "a"))
	release, held := hold()
	require.True(t, held)
	b.release(use)
	b.expect("closed last")
	again, held := hold()
	require.True(t, held, "it is still open")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Wait(ctx), context.Canceled)

	require.NoError(t, release())
	require.Empty(t, b.events)
	require.EqualError(t, again(), "the disk is full")
	b.expect("closed a")
	b.quiet()
	_, held = hold()
	require.False(t, held)
	require.Zero(t, b.Len())
}

func TestMemberThatIsTakenUpAgainWhileItEndsRunsAgain(t *testing.T) {
	b := newBench(t)
	leave := make(chan struct{})
	first := b.Use("first")
	before := b.acquire(first, "a", func(m *member) { m.leave = leave })
	b.start(first)
	b.expect("runs a")
	b.release(first)
	b.expect("ends a") // and waits for what is under way

	second := b.Use("second")
	require.Same(t, before, b.acquire(second, "a"))
	b.start(second)
	close(leave)
	b.expect("runs a")

	b.release(second)
	b.expect("ends a", "closed a")
	b.quiet()
}

// Two handles of one database must never be open at once.
func TestMemberIsMadeAnewOnlyAfterItsFormerWasClosed(t *testing.T) {
	p := pool.New[string]()
	var open, most atomic.Int32
	var failed atomic.Bool
	key := pool.KeyOf("database", "file")
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for range 200 {
				use := p.Use("host")
				_, err := pool.Acquire(use, key, func(*pool.Current[string]) (*database, error) {
					most.Store(max(most.Load(), open.Add(1)))
					return &database{&open}, nil
				})
				if err != nil {
					failed.Store(true)
				}
				if rand.IntN(2) == 0 {
					use.Attach()
					use.Run(all)
				}
				use.Release(func(error) { failed.Store(true) })
			}
		})
	}
	users.Wait()
	require.NoError(t, p.Wait(t.Context()))
	require.False(t, failed.Load())
	require.EqualValues(t, 1, most.Load())
	require.Zero(t, open.Load())
	require.Zero(t, p.Len())
}

type database struct{ open *atomic.Int32 }

func (d *database) Run(ctx context.Context) { <-ctx.Done() }

func (d *database) Close() error {
	d.open.Add(-1)
	return nil
}

// What goes on writes to the log of whoever started last, and to the former
// one's again when that start failed.
func TestNewestHostThatHasStartedIsCurrent(t *testing.T) {
	b := newBench(t)
	first := b.Use("first")
	m := b.acquire(first, "a")
	require.Equal(t, "first", m.environment.Get(), "the one it was made for, before any has started")
	b.start(first)

	second := b.Use("second")
	b.acquire(second, "a")
	require.Equal(t, "first", m.environment.Get(), "a provisioned configuration lends nothing")
	second.Attach()
	require.Equal(t, "second", m.environment.Get())
	b.release(second)
	require.Equal(t, "first", m.environment.Get(), "its start failed")

	third := b.Use("third")
	b.acquire(third, "a")
	b.acquire(third, "a")
	b.start(third)
	b.release(first)
	require.Equal(t, "third", m.environment.Get())
	b.release(third)
	b.expect("runs a", "ends a", "closed a")
	b.quiet()
}
