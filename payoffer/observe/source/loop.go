package source

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Loop runs rounds again and again. Its fields are set before it is used.
type Loop struct {
	// Round is one round. It returns the time to the next one, which Wake
	// may cut short.
	Round func(context.Context) (time.Duration, error)
	// Least is the pause after a failed round, which doubles with each further
	// one up to Most, and which Wake does not end. With neither a failed round
	// is followed by the next one like any other.
	Least, Most time.Duration
	// Random returns a number in [0, 1) and spreads the pauses.
	Random func() float64
	// Turned is told when a trouble begins, when it becomes another one, and,
	// by nil, when it is over; nil tells nobody.
	Turned func(error)

	mu       sync.Mutex
	failures int
	code     string
	well     bool
	woken    bool
	running  *running // nil while it does not run
}

// running is a Loop at work. The loop's lock guards it.
type running struct {
	next  *time.Timer // round
	busy  bool        // one is under way
	alone bool        // the pause is one that Wake does not end
}

// Run runs a round at once and then again and again until ctx ends. It may be
// called again afterwards, and goes on with what is known.
func (l *Loop) Run(ctx context.Context) {
	done := make(chan struct{})
	l.Begin(ctx, func() { close(done) })
	<-done
}

// Begin is Run that does not wait: it calls ended when Run would return. Between two
// rounds there is a timer, and no goroutine.
func (l *Loop) Begin(ctx context.Context, ended func()) { l.BeginIn(ctx, 0, ended) }

// BeginIn is Begin whose first round comes later, unless Wake asks for it.
func (l *Loop) BeginIn(ctx context.Context, first time.Duration, ended func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := new(running)
	l.running = r
	if l.woken {
		l.woken, first = false, 0
	}
	r.next = time.AfterFunc(first, func() {
		if l.round(ctx, r) {
			ended()
		}
	})
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		idle := l.running == r && !r.busy
		if idle {
			l.end(r)
		}
		l.mu.Unlock()
		if idle {
			ended()
		}
	})
}

// end needs the lock.
func (l *Loop) end(r *running) {
	r.next.Stop()
	l.running = nil
}

// round runs one round, and sets the time of the next. It reports whether that was
// the last one.
func (l *Loop) round(ctx context.Context, r *running) (last bool) {
	l.mu.Lock()
	if l.running != r || r.busy || ctx.Err() != nil {
		l.mu.Unlock()
		return false // who ended it tells
	}
	r.busy = true
	l.mu.Unlock()
	pause, err := l.Once(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	r.busy, r.alone = false, err != nil && l.Least > 0 // who does not answer is left alone
	if ctx.Err() != nil {
		l.end(r)
		return true
	}
	if l.woken && !r.alone {
		l.woken, pause = false, 0
	}
	r.next.Reset(pause)
	return false
}

// Wake starts a round at once, or after the one that is under way. It never blocks.
func (l *Loop) Wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.running; r != nil && !r.busy && !r.alone {
		r.next.Reset(0)
		return
	}
	l.woken = true
}

// Heard forgets what Wake asked for until now: the round under way does it.
func (l *Loop) Heard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.woken = false
}

// After returns a function that calls ended when it is called for the last of so many
// times.
func After(times int, ended func()) func() {
	var done atomic.Int64
	return func() {
		if done.Add(1) == int64(times) {
			ended()
		}
	}
}

// Once runs one round and returns the time to the next one, and the error of
// this one. The end of ctx is no failure.
func (l *Loop) Once(ctx context.Context) (pause time.Duration, err error) {
	pause, err = l.Round(ctx)
	if ctx.Err() != nil {
		return 0, nil
	}
	l.mu.Lock()
	before := l.code
	l.code, l.well = Code(err), err == nil
	if l.failures++; err == nil {
		l.failures = 0
	}
	failures := l.failures
	l.mu.Unlock()
	if Code(err) != before && l.Turned != nil {
		l.Turned(err)
	}
	if err != nil && l.Least > 0 {
		pause = Backoff(failures, l.Least, l.Most, l.Random())
	}
	return pause, err
}

// Last tells the code of the last round, and whether there was one and it went
// well. It never waits for a round.
func (l *Loop) Last() (code string, well bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.code, l.well
}

// Log makes what Loop.Turned is told two lines of a log.
func Log(logger *slog.Logger, trouble, over string) func(error) {
	return func(err error) {
		if err != nil {
			logger.Warn(trouble, "error", err.Error())
			return
		}
		logger.Info(over)
	}
}

// Backoff is the pause after so many failures in a row, at least 1: least, and
// twice as much with each further one up to most, spread.
func Backoff(failures int, least, most time.Duration, random float64) time.Duration {
	return Spread(min(least<<min(failures-1, 10), most), random)
}

// Spread takes up to a fifth of a pause away, by a number in [0, 1), so that
// those who began together do not call together for ever.
func Spread(pause time.Duration, random float64) time.Duration {
	return pause - time.Duration(random*float64(pause)/5)
}
