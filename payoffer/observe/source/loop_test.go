package source

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// diary is a loop in simulated time that records when it polled.
type diary struct {
	Loop
	// mu orders the test before the polls for the race detector.
	mu      sync.Mutex
	begin   time.Time
	polls   []time.Duration
	fails   error
	changes []string
}

// simulate runs test beside a loop that change has altered.
func simulate(t *testing.T, change func(*diary), test func(t *testing.T, d *diary, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{begin: time.Now()}
		d.Poll = func(context.Context) (time.Duration, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.polls = append(d.polls, time.Since(d.begin))
			return time.Minute, d.fails
		}
		d.Random = func() float64 { return 0 }
		d.OnChange = func(err error) { d.changes = append(d.changes, Code(err)) }
		if change != nil {
			change(d)
		}
		test(t, d, d.start(t))
	})
}

// start runs the loop until stop, which waits for its end.
func (d *diary) start(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Run(ctx)
	}()
	synctest.Wait()
	return func() {
		cancel()
		<-ended
	}
}

// after lets simulated time pass and returns when the loop polled.
func (d *diary) after(pause time.Duration) []time.Duration {
	d.mu.Lock()
	before := len(d.polls)
	d.mu.Unlock()
	time.Sleep(pause)
	synctest.Wait()
	return d.polls[before:]
}

func TestLoopPollsUntilCanceled(t *testing.T) {
	simulate(t, nil, func(t *testing.T, d *diary, stop func()) {
		require.Equal(t, []time.Duration{0}, d.polls)
		require.Equal(t, []time.Duration{time.Minute, 2 * time.Minute}, d.after(2*time.Minute))
		d.fails = errors.New("down")
		d.after(time.Minute)
		stop()
		require.Empty(t, d.after(time.Hour-3*time.Minute))
		stop = d.start(t)
		defer stop()
		require.Equal(t, []time.Duration{time.Hour}, d.polls[4:])
		require.Equal(t, []string{Unreachable}, d.changes, "the same failure is reported once")
	})
}

func TestLoopEndsAfterRunningPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var ended time.Duration
		begin, rounds := time.Now(), 0
		l := &Loop{Poll: func(context.Context) (time.Duration, error) {
			rounds++
			time.Sleep(time.Minute)
			return 0, nil
		}}
		go func() {
			l.Run(ctx)
			ended += time.Since(begin)
		}()
		time.Sleep(time.Second)
		l.Wake()
		cancel()
		l.Wake()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, time.Minute, ended)
		require.Equal(t, 1, rounds)
	})
}

func TestLoopWakeDuringPoll(t *testing.T) {
	for name, heard := range map[string]bool{"heard": true, "not heard": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				rounds := 0
				var l *Loop
				l = &Loop{Poll: func(context.Context) (time.Duration, error) {
					rounds++
					time.Sleep(time.Second)
					if heard {
						l.cancelWake()
					}
					return time.Hour, nil
				}}
				go l.Run(ctx)
				time.Sleep(time.Second / 2)
				l.Wake()
				l.Wake()
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, map[bool]int{true: 1, false: 2}[heard], rounds)
			})
		})
	}
}

func TestLoopBackoffDoubles(t *testing.T) {
	backOff := func(d *diary) { d.Least, d.Most, d.fails = time.Second, 5*time.Second, errors.New("down") }
	simulate(t, backOff, func(t *testing.T, d *diary, stop func()) {
		defer stop()
		at := func(seconds ...time.Duration) []time.Duration {
			for i := range seconds {
				seconds[i] *= time.Second
			}
			return seconds
		}
		require.Equal(t, at(1, 3, 7, 12, 17), d.after(17*time.Second))
		d.fails = nil
		require.Equal(t, at(22, 82), d.after(65*time.Second))
		d.fails = errors.New("down")
		require.Equal(t, at(142, 143, 145), d.after(63*time.Second), "from the beginning again")
	})
}

func TestLoopWakeAfterFailedPoll(t *testing.T) {
	backOff := func(d *diary) {
		d.Least, d.Most = 10*time.Second, time.Minute
	}
	simulate(t, backOff, func(t *testing.T, d *diary, stop func()) {
		defer stop()
		d.after(time.Second)
		d.fails = errors.New("down")
		d.Wake()
		require.Equal(t, []time.Duration{time.Second}, d.after(0))
		d.Wake()
		require.Empty(t, d.after(9*time.Second))
		d.fails = nil
		require.Equal(t, []time.Duration{11 * time.Second}, d.after(time.Second), "that poll is the one that was asked for")
	})
}

func TestLoopLogsFailureAndRecoveryOnce(t *testing.T) {
	var log bytes.Buffer
	told := func(d *diary) {
		d.OnChange = Log(slog.New(slog.NewTextHandler(&log, nil)), "the sun cannot be seen", "the sun is back")
	}
	simulate(t, told, func(t *testing.T, d *diary, stop func()) {
		defer stop()
		code, well := d.Last()
		require.Empty(t, code)
		require.True(t, well)
		d.fails = &Error{Code: Limited, Host: "sun.example"}
		d.after(5 * time.Minute)
		require.Equal(t, 1, strings.Count(log.String(), `level=WARN msg="the sun cannot be seen" error="rate_limited (sun.example)"`))
		d.fails = &Error{Code: Unauthorized, Host: "sun.example"}
		d.after(5 * time.Minute)
		require.Equal(t, 1, strings.Count(log.String(), "unauthorized"), "another trouble")
		code, well = d.Last()
		require.Equal(t, Unauthorized, code)
		require.False(t, well)
		d.fails = nil
		d.after(5 * time.Minute)
		require.Equal(t, 1, strings.Count(log.String(), `level=INFO msg="the sun is back"`))
		require.Equal(t, 3, strings.Count(log.String(), "\n"))
	})
}

func TestBackoffIsBoundedAndSpread(t *testing.T) {
	var got []time.Duration
	for failures := 1; failures <= 9; failures++ {
		got = append(got, Backoff(failures, 5*time.Second, 5*time.Minute, 0)/time.Second)
	}
	require.Equal(t, []time.Duration{5, 10, 20, 40, 80, 160, 300, 300, 300}, got)
	require.Equal(t, 5*time.Minute, Backoff(1_000_000, 5*time.Second, 5*time.Minute, 0), "for good")
	require.Equal(t, 4*time.Second, Backoff(1, 5*time.Second, 5*time.Minute, 1))
	require.Equal(t, 9*time.Second, Spread(10*time.Second, 0.5))
}
