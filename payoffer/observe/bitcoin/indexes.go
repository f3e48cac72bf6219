package bitcoin

import (
	"context"
	"sync"
	"time"
)

const (
	// idleEvery is the time between two cycles of all idle accounts together, after the first burst, so that their
	// number does not multiply the calls.
	idleEvery, burst = 500 * time.Millisecond, 20
	// tipFor is how long a response about blocks is shared.
	tipFor = 15 * time.Second
	// maxShared bounds the shared responses. The list starts again empty.
	maxShared = 256
)

// Indexes are Esplora APIs that several observers share. Data of blocks is requested once for all, and idle accounts
// take turns.
type Indexes struct {
	now func() time.Time

	mu       sync.Mutex // guards the fields below
	users    int
	next     time.Time // turn of an idle account
	response map[string]*response
}

// response is one shared response, nil while it is requested.
type response struct {
	mu  sync.Mutex
	at  time.Time
	any any
}

// NewIndexes returns the Indexes of observers that have the same endpoints.
func NewIndexes(now func() time.Time) *Indexes {
	return &Indexes{now: now, response: make(map[string]*response)}
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

// every is the time between two cycles of an idle account, long enough that no account waits for its turn.
func (x *Indexes) every() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return max(pollEvery, time.Duration(x.users)*idleEvery*5/4)
}

// waitTurn waits for an idle account's turn, or until ctx ends.
func (x *Indexes) waitTurn(ctx context.Context) {
	x.mu.Lock()
	now := time.Now()
	if idle := now.Add(-burst * idleEvery); x.next.Before(idle) {
		x.next = idle
	}
	x.next = x.next.Add(idleEvery)
	wait := x.next.Sub(now)
	x.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
}

// latest returns the shared response to a question, or asks. fresh accepts no earlier response.
func latest[T any](x *Indexes, question string, fresh bool, ask func() (T, error)) (T, error) {
	if x.unshared() {
		return ask()
	}
	t := x.of(question)
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.any.(T); ok && !fresh && x.now().Sub(t.at).Abs() < tipFor {
		return known, nil
	}
	said, err := ask()
	if err == nil {
		t.any, t.at = said, x.now()
	}
	return said, err
}

// unshared reports whether there is at most one observer.
func (x *Indexes) unshared() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.users < 2
}

// of finds a question, or adds it.
func (x *Indexes) of(question string) *response {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.response[question]
	if t == nil {
		if len(x.response) >= maxShared {
			clear(x.response)
		}
		t = new(response)
		x.response[question] = t
	}
	return t
}
