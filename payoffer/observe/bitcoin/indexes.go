package bitcoin

import (
	"context"
	"sync"
	"time"
)

const (
	// turnEvery is the time between two rounds of accounts at rest: what they ask an
	// endpoint, one question each, does not grow with their number. The first burst of
	// them need not wait.
	turnEvery, burst = 500 * time.Millisecond, 20
	// tipFor is how long an answer about blocks holds for all accounts.
	tipFor = 15 * time.Second
)

// Indexes are Esplora APIs that several observers share: what they say of blocks is
// asked once for all, and accounts at rest take turns.
type Indexes struct {
	now func() time.Time

	mu    sync.Mutex // guards what follows
	users int
	next  time.Time // turn
	told  map[string]*told
}

// told is one answer, nil while it is asked for.
type told struct {
	mu  sync.Mutex
	at  time.Time
	any any
}

// NewIndexes makes what observers with the same endpoints share.
func NewIndexes(now func() time.Time) *Indexes {
	return &Indexes{now: now, told: make(map[string]*told)}
}

// use counts an observer until leave.
func (x *Indexes) use() (leave func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.users++
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.users--
	}
}

// every is the time between two rounds of an account at rest: long enough that none
// waits for its turn, though pauses are up to a fifth shorter.
func (x *Indexes) every() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return max(pollEvery, time.Duration(x.users)*turnEvery*5/4)
}

// turn waits for the turn of an account at rest, or until ctx ends.
func (x *Indexes) turn(ctx context.Context) {
	x.mu.Lock()
	now := time.Now()
	if idle := now.Add(-burst * turnEvery); x.next.Before(idle) {
		x.next = idle
	}
	x.next = x.next.Add(turnEvery)
	wait := x.next.Sub(now)
	x.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
}

// latest is what was said to a question a moment ago, or is asked for now; anew says
// that no earlier answer will do. Who is alone asks always.
func latest[T any](x *Indexes, question string, anew bool, ask func() (T, error)) (T, error) {
	if x.alone() {
		return ask()
	}
	t := x.of(question)
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.any.(T); ok && !anew && x.now().Sub(t.at).Abs() < tipFor {
		return known, nil
	}
	said, err := ask()
	if err == nil {
		t.any, t.at = said, x.now()
	}
	return said, err
}

// alone reports whether nobody shares the answers.
func (x *Indexes) alone() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.users < 2
}

// of finds a question, and forgets those that were answered long ago.
func (x *Indexes) of(question string) *told {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.told[question]
	if t == nil {
		for other, old := range x.told {
			if old.mu.TryLock() {
				if x.now().Sub(old.at).Abs() >= tipFor {
					delete(x.told, other)
				}
				old.mu.Unlock()
			}
		}
		t = &told{at: x.now()}
		x.told[question] = t
	}
	return t
}
