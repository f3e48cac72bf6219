package source

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Loop runs a poll repeatedly. Its fields are set before it is used.
type Loop struct {
	// Poll polls once and returns the time to the next poll. Wake ends that pause early.
	Poll func(context.Context) (time.Duration, error)
	// Least is the pause after a failed poll, which doubles up to Most and which Wake does not end; 0 treats it as any other.
	Least, Most time.Duration
	Random      func() float64 // in [0, 1), to spread the pauses
	// OnChange receives an error when its code differs from the last poll's, and nil after recovery; nil is allowed.
	OnChange func(error)

	mu        sync.Mutex
	failures  int
	code      string
	succeeded bool
	woken     bool
	running   *running // nil while it does not run
}

// running is the state of a running Loop, guarded by its lock.
type running struct {
	next       *time.Timer
	polling    bool
	backingOff bool // Wake does not end the pause
}

// Run polls at once and then repeatedly until ctx ends. It can be called again afterwards.
func (l *Loop) Run(ctx context.Context) {
	done := make(chan struct{})
	l.Begin(ctx, func() { close(done) })
	<-done
}

// Begin is Run without waiting: it calls ended when Run would return. Between two polls it needs no goroutine.
func (l *Loop) Begin(ctx context.Context, ended func()) { l.BeginIn(ctx, 0, ended) }

// BeginIn is Begin with a delay of the first poll, which Wake ends.
func (l *Loop) BeginIn(ctx context.Context, first time.Duration, ended func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := new(running)
	l.running = r
	if l.woken {
		l.woken, first = false, 0
	}
	r.next = time.AfterFunc(first, func() {
		if l.poll(ctx, r) {
			ended()
		}
	})
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		idle := l.running == r && !r.polling
		if idle {
			r.next.Stop()
			l.running = nil
		}
		l.mu.Unlock()
		if idle {
			ended()
		}
	})
}

// poll runs Poll and schedules the next poll. last reports that ctx ended during it; then the caller calls ended.
func (l *Loop) poll(ctx context.Context, r *running) (last bool) {
	l.mu.Lock()
	if l.running != r || r.polling || ctx.Err() != nil {
		l.mu.Unlock()
		return false
	}
	r.polling = true
	l.mu.Unlock()
	pause, err := l.Once(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	r.polling, r.backingOff = false, err != nil && l.Least > 0
	if ctx.Err() != nil {
		l.running = nil
		return true
	}
	if l.woken && !r.backingOff {
		l.woken, pause = false, 0
	}
	r.next.Reset(pause)
	return false
}

// Wake polls now, or again after the running poll. It never blocks.
func (l *Loop) Wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.running; r != nil && !r.polling && !r.backingOff {
		r.next.Reset(0)
		return
	}
	l.woken = true
}

// CancelWake cancels a Wake that waits for the running poll, because that poll includes its work.
func (l *Loop) CancelWake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.woken = false
}

// After returns a function that calls ended at its times-th call.
func After(times int, ended func()) func() {
	var done atomic.Int64
	return func() {
		if done.Add(1) == int64(times) {
			ended()
		}
	}
}

// Once polls once and returns the time to the next poll. The end of ctx is not a failure.
func (l *Loop) Once(ctx context.Context) (pause time.Duration, err error) {
	pause, err = l.Poll(ctx)
	if ctx.Err() != nil {
		return 0, nil
	}
	l.mu.Lock()
	before := l.code
	l.code, l.succeeded = Code(err), err == nil
	if l.failures++; err == nil {
		l.failures = 0
	}
	failures := l.failures
	l.mu.Unlock()
	if Code(err) != before && l.OnChange != nil {
		l.OnChange(err)
	}
	if err != nil && l.Least > 0 {
		pause = Backoff(failures, l.Least, l.Most, l.Random())
	}
	return pause, err
}

// Last returns the error code of the last poll, and whether a poll has ended and the last one succeeded. It never blocks.
func (l *Loop) Last() (code string, succeeded bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.code, l.succeeded
}

// Log returns a function for Loop.OnChange that logs a failure, with a hint or that of its code, and the recovery.
func Log(logger *slog.Logger, failure, recovery string, hint ...string) func(error) {
	return func(err error) {
		if err != nil {
			logger.Warn(failure, "error", err.Error(), "hint", cmp.Or(strings.Join(hint, ""), Hint(err)))
			return
		}
		logger.Info(recovery)
	}
}

// Backoff returns the spread pause after a number of failures in a row: least, doubled with each further one up to most.
func Backoff(failures int, least, most time.Duration, random float64) time.Duration {
	return Spread(min(least<<min(failures-1, 10), most), random)
}

// Spread shortens a pause by up to a fifth, by a number in [0, 1), so that clients do not poll in step.
func Spread(pause time.Duration, random float64) time.Duration {
	return pause - time.Duration(random*float64(pause)/5)
}
