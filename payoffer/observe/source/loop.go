package source

import (
	"context"
	"log/slog"
	"sync"
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
	// Wake starts a round at once; nil never does.
	Wake <-chan struct{}
	// Random returns a number in [0, 1) and spreads the pauses.
	Random func() float64
	// Turned is told when a trouble begins, when it becomes another one, and,
	// by nil, when it is over; nil tells nobody.
	Turned func(error)

	mu       sync.Mutex
	failures int
	code     string
	well     bool
}

// Run runs a round at once and then again and again until ctx ends. It may be
// called again afterwards, and goes on with what is known.
func (l *Loop) Run(ctx context.Context) {
	for ctx.Err() == nil {
		pause, err := l.Once(ctx)
		wake := l.Wake
		if err != nil && l.Least > 0 {
			wake = nil // who does not answer is left alone
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		case <-wake:
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
