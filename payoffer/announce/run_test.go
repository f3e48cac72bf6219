package announce

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// roundTrip is a transport without a network, on which time can be simulated.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}, nil
}

// simulate runs a test with one receiver in simulated time.
func simulate(t *testing.T, receive roundTrip, test func(t *testing.T, d *fixture, a *Announcer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := new(clock)
		d := fixtureAt(t, ledger.NewSQLite(filepath.Join(t.TempDir(), "ledger.db"), time.Now), c)
		a, err := New(Config{
			Offer: offer.Offer{Terms: offer.Terms{ID: testOffer}}, Ledger: d.outbox, Owner: "simulated", Transport: receive, Random: func() float64 { return 0 },
			Endpoints: []Endpoint{Webhook{URL: "https://receiver.example/hook"}},
		})
		require.NoError(t, err)
		test(t, d, a)
	})
}

func TestATransitionIsFoundWithinSecondsAndAtOnceWhenTold(t *testing.T) {
	var delivered time.Time
	receive := func(*http.Request) (*http.Response, error) {
		delivered = time.Now()
		return answer(http.StatusOK)
	}
	simulate(t, receive, func(t *testing.T, d *fixture, a *Announcer) {
		stop := start(t, a)
		start := time.Now()
		d.pay()
		time.Sleep(pollEvery) // simulated
		synctest.Wait()
		require.Equal(t, pollEvery, delivered.Sub(start))

		d.pay()
		a.Notify()
		a.Notify()
		synctest.Wait()
		require.Equal(t, time.Now(), delivered)
		stop()
	})
}

func TestAReceiverThatDoesNotAnswerIsLeftAfterFifteenSeconds(t *testing.T) {
	tries := []time.Time{}
	receive := func(r *http.Request) (*http.Response, error) {
		tries = append(tries, time.Now())
		if len(tries) > 1 {
			return answer(http.StatusOK)
		}
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	simulate(t, receive, func(t *testing.T, d *fixture, a *Announcer) {
		stop := start(t, a)
		d.pay()
		a.Notify()
		time.Sleep(15*time.Second - time.Nanosecond) // simulated
		synctest.Wait()
		require.Empty(t, a.health()[0].LastError)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, "timeout", a.health()[0].LastError)
		time.Sleep(pauseFirst)
		synctest.Wait()
		require.Len(t, tries, 2)
		require.Equal(t, 15*time.Second+pauseFirst, tries[1].Sub(tries[0]))
		stop()
	})
}

func TestWhatIsBeingSentAtTheEndIsGivenAMoment(t *testing.T) {
	tries := 0
	receive := func(*http.Request) (*http.Response, error) {
		tries++
		time.Sleep(stopTimeout - time.Second) // simulated
		return answer(http.StatusOK)
	}
	simulate(t, receive, func(t *testing.T, d *fixture, a *Announcer) {
		stop := start(t, a)
		d.pay()
		d.pay()
		a.Notify()
		synctest.Wait()
		begin := time.Now()
		stop()
		require.Equal(t, stopTimeout-time.Second, time.Since(begin))
		require.Equal(t, 1, tries, "no other is begun")

		time.Sleep(leaseFor * time.Second) // simulated
		d.configured(*a.subscribers[0].config)
		require.Equal(t, 2, tries, "only the other waits for the next start")
	})
}

func TestAReceiverThatHangsHoldsUpNoStop(t *testing.T) {
	receive := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	simulate(t, receive, func(t *testing.T, d *fixture, a *Announcer) {
		stop := start(t, a)
		d.pay()
		a.Notify()
		synctest.Wait()
		begin := time.Now()
		stop()
		require.Equal(t, stopTimeout, time.Since(begin))
		require.Empty(t, a.health()[0].LastError, "a stop is no failure of the receiver")
	})
}

// start runs the announcer once it has found its position, and returns what
// ends it and waits.
func start(t *testing.T, a *Announcer) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.Run(ctx)
	}()
	synctest.Wait()
	return func() {
		cancel()
		<-ended
	}
}
