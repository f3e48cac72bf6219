package rate

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// transport answers requests without a network, so that time can be simulated.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func coinbaseAnswer() *http.Response {
	body := `{"data":{"amount":"90000","base":"BTC","currency":"USD"}}`
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}
}

func TestRunAsksAtOnceAndEveryMinuteUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int32
		w, err := New(Config{Sources: []string{"coinbase"}, Transport: transport(func(*http.Request) (*http.Response, error) {
			requests.Add(1)
			return coinbaseAnswer(), nil
		})})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			w.Run(ctx)
			close(ended)
		}()
		synctest.Wait()
		require.EqualValues(t, 1, requests.Load())
		time.Sleep(3*time.Minute + time.Second)
		synctest.Wait()
		require.EqualValues(t, 4, requests.Load())
		cancel()
		<-ended
	})
}

func TestRunAnnouncesTheExpiryWhenItHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dead atomic.Bool
		start := time.Now()
		var changes []time.Duration
		w, err := New(Config{
			Sources: []string{"coinbase"},
			Random:  func() float64 { return 0 },
			Transport: transport(func(*http.Request) (*http.Response, error) {
				if dead.Load() {
					return nil, io.ErrUnexpectedEOF
				}
				return coinbaseAnswer(), nil
			}),
		})
		require.NoError(t, err)
		w.Listen(func() { changes = append(changes, time.Since(start)) })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			w.Run(ctx)
			close(ended)
		}()
		synctest.Wait()
		dead.Store(true)
		time.Sleep(20 * time.Minute)
		cancel()
		<-ended
		require.Equal(t, []time.Duration{0, 10*time.Minute + time.Nanosecond}, changes)
	})
}

func TestAHangingSourceIsGivenUpAfterThreeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := New(Config{Transport: transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		require.NoError(t, err)
		start := time.Now()
		w.Refresh(t.Context())
		require.Equal(t, fetchTimeout, time.Since(start), "all sources at the same time")
		for _, f := range w.feeds {
			require.Equal(t, reasonTimeout, f.bad)
		}
	})
}

// A price that stays the same for hours is told every ten minutes, so that nothing
// that was rendered from it is ever older than twenty while it may be used.
func TestAPriceThatStaysTheSameIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dead atomic.Bool
		w, err := New(Config{
			Sources: []string{"coinbase"},
			Random:  func() float64 { return 0 },
			Transport: transport(func(*http.Request) (*http.Response, error) {
				if dead.Load() {
					return nil, io.ErrUnexpectedEOF
				}
				return coinbaseAnswer(), nil
			}),
		})
		require.NoError(t, err)
		var told []Rate
		var last atomic.Pointer[Rate]
		w.Listen(func() {
			rate, _ := w.Current()
			told = append(told, rate)
			last.Store(&rate)
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			w.Run(ctx)
			close(ended)
		}()
		for minute := range 210 {
			synctest.Wait()
			dead.Store(minute >= 188)
			if _, usable := w.Current(); usable {
				require.LessOrEqual(t, time.Since(last.Load().At), maxAge+tellEvery, minute)
			}
			time.Sleep(time.Minute)
		}
		cancel()
		<-ended
		require.Len(t, told, 20, "at the start, each ten minutes, and when it expired")
		require.Zero(t, told[19])
		for i, rate := range told[:19] {
			require.Equal(t, told[0].At.Add(time.Duration(i)*tellEvery), rate.At)
		}
	})
}
