package announce

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// roundTrip is a transport without a network, on which time can be simulated.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}, nil
}

// simulated makes an announcer in simulated time.
func simulated(t *testing.T, c Config) (*fixture, *Announcer) {
	d := fixtureAt(t, ledger.NewSQLite(payoffertest.LedgerFile(t), time.Now), new(clock))
	c.Offer.ID, c.Ledger, c.Owner = testOffer, d.outbox, "simulated"
	c.Random = func() float64 { return 0 }
	if c.Page == nil {
		c.Page = testPage
	}
	a, err := New(c)
	require.NoError(t, err)
	return d, a
}

// simulate runs a test with one receiver in simulated time.
func simulate(t *testing.T, receive roundTrip, test func(t *testing.T, d *fixture, a *Announcer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d, a := simulated(t, Config{
			Transport: receive, Endpoints: []Endpoint{Webhook{URL: "https://receiver.example/hook"}},
		})
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

// slowMail answers each step of the talk after a while.
func slowMail(step time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			for _, answer := range []string{"220 here", "250 here", "250 ok", "250 ok", "354 go on", "250 taken"} {
				time.Sleep(step) // simulated
				if _, err := io.WriteString(server, answer+"\r\n"); err != nil {
					return
				}
				if _, err := server.Read(make([]byte, 4096)); err != nil {
					return
				}
			}
		}()
		return client, nil
	}
}

// A mail server may take its time at each step of the talk.
func TestAReceiverThatDoesNotAnswerIsLeftAfterFifteenSeconds(t *testing.T) {
	hook := []Endpoint{Webhook{URL: "https://receiver.example/hook"}}
	mailbox := []Endpoint{Email{To: "a@example.com", Server: "localhost:25"}}
	var tries []time.Time // when each one ended
	tried := func() { tries = append(tries, time.Now()) }
	for name, c := range map[string]Config{
		"webhook": {Endpoints: hook, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			tried()
			return nil, r.Context().Err()
		})},
		"silent mail server":    {Endpoints: mailbox, Dial: slowMail(time.Hour)},
		"mail server with rest": {Endpoints: mailbox, Dial: slowMail(4 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries, c.Sent = nil, func(string, int, time.Duration) { tried() }
				d, a := simulated(t, c)
				stop := start(t, a)
				d.pay()
				a.Notify()
				time.Sleep(15*time.Second - time.Nanosecond) // simulated
				synctest.Wait()
				require.Empty(t, a.health()[0].LastError)
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				require.Equal(t, "timeout", a.health()[0].LastError)
				time.Sleep(pauseFirst + 15*time.Second)
				synctest.Wait()
				require.Len(t, tries, 2)
				require.Equal(t, 15*time.Second+pauseFirst, tries[1].Sub(tries[0]))
				stop()
				time.Sleep(2 * time.Hour) // until the server has ended
			})
		})
	}
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
