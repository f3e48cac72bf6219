package source

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
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
	woken     chan struct{} // has a value after Wake
}

// Run polls at once and then repeatedly until ctx ends. It can be called again afterwards.
func (l *Loop) Run(ctx context.Context) { l.RunAfter(ctx, 0) }

// RunAfter is Run with a delay of the first poll, which Wake ends.
func (l *Loop) RunAfter(ctx context.Context, pause time.Duration) {
	for woken := l.wakes(); ; {
		select {
		case <-woken:
		case <-time.After(pause):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		l.cancelWake() // this poll includes its work
		var err error
		if pause, err = l.Once(ctx); err != nil && l.Least > 0 {
			woken = nil
		} else {
			woken = l.wakes()
		}
	}
}

// Wake polls now, or again after the running poll. It never blocks.
func (l *Loop) Wake() {
	select {
	case l.wakes() <- struct{}{}:
	default:
	}
}

// cancelWake cancels a Wake that waits for the running poll, because that poll includes its work.
func (l *Loop) cancelWake() {
	select {
	case <-l.wakes():
	default:
	}
}

func (l *Loop) wakes() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.woken == nil {
		l.woken = make(chan struct{}, 1)
	}
	return l.woken
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
