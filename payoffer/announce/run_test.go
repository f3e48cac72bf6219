package announce

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// roundTrip is a transport without a network, on which time can be simulated.
type roundTrip func(*http.Request) (*http.Response, error)

func (rt roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return rt(r) }

func answer(status int) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}, nil
}

// simulated makes an announcer in simulated time.
func simulated(t *testing.T, c Config) (*fixture, *Announcer) {
	d := fixtureAt(t, ledger.NewSQLite(payoffertest.LedgerFile(t), time.Now), new(payoffertest.Clock))
	c.Offer.ID, c.Ledger, c.Owner = testOffer, d.outbox, "simulated"
	c.Random = func() float64 { return 0 }
	if c.Page == nil {
		c.Page = testPage
	}
	a := must(New(c))(t)
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

func TestNotifyDeliversAtOnce(t *testing.T) {
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
func TestDeliveryTimeout(t *testing.T) {
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
				time.Sleep(minPause + 15*time.Second)
				synctest.Wait()
				require.Len(t, tries, 2)
				require.Equal(t, 15*time.Second+minPause, tries[1].Sub(tries[0]))
				stop()
				time.Sleep(2 * time.Hour) // until the server has ended
			})
		})
	}
}

func TestStopWaitsForRunningDelivery(t *testing.T) {
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

// A reload lets the attempt end that the next configuration would repeat.
func TestReloadWaitsForSlowDelivery(t *testing.T) {
	tries := 0
	receive := func(*http.Request) (*http.Response, error) {
		tries++
		time.Sleep(deliveryTimeout - time.Second) // simulated
		return answer(http.StatusOK)
	}
	simulate(t, receive, func(t *testing.T, d *fixture, a *Announcer) {
		a.config.Exiting = func() bool { return false }
		stop := start(t, a)
		d.pay()
		a.Notify()
		synctest.Wait()
		stop()
		d.configured(*a.subscribers[0].config)
		require.Equal(t, 1, tries)
	})
}

func TestStopWithHangingEndpoint(t *testing.T) {
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

const threeDays = skipAfter * time.Second

// always answers every request of a test alike, for as many as it may make.
func always(r reply) (script []reply) {
	for range 2_000 {
		script = append(script, r)
	}
	return script
}

// Whatever a receiver does but to answer 2xx, the announcement waits and comes before
// the next one: for good, unless the event may be at fault.
func TestEndpointErrorsRetryOrSkip(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reply   reply
		code    string
		skipped bool // after three days
	}{
		"not found":             {reply{Status: 404}, "refused", true},
		"timeout":               {reply{Status: 408}, "refused", false},
		"gone":                  {reply{Status: 410}, "gone", false},
		"too early":             {reply{Status: 425}, "refused", false},
		"too many":              {reply{Status: 429}, "rate_limited", false},
		"server error":          {reply{Status: 503, Body: 1 << 20}, "server_error", false},
		"found elsewhere":       {reply{Status: 302, Location: "/elsewhere"}, "redirected", false},
		"not modified":          {reply{Status: 304}, "redirected", false},
		"answer lost on return": {reply{Drop: true}, "unreachable", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, receiver, a := listening(t)
			d.pay()
			d.pay()
			receiver.Script(always(test.reply)...)
			a.rounds(t.Context())
			require.Equal(t, EndpointHealth{Host: receiver.Host(), Behind: 2, LastError: test.code}, a.health()[0])
			a.rounds(t.Context())
			require.Len(t, receiver.Requests(), 1, "not before the pause is over")
			for _, requests := range []int{2, 2} { // the pause is longer after the second
				d.after(minPause, a)
				require.Len(t, receiver.Requests(), requests)
			}
			for range 10 {
				if !test.skipped {
					d.after(threeDays, a)
				}
			}
			require.Empty(t, taken(t, receiver))
			receiver.Script()
			d.after(maxPause, a)
			require.Equal(t, []string{"card:pi_1:1", "card:pi_2:1"}, taken(t, receiver))
			require.Equal(t, EndpointHealth{Host: receiver.Host()}, a.health()[0])
			d.requireLogged(1, "level=WARN")
			d.requireLogged(1, "level=INFO")
			d.requireLogged(2, receiver.Host())
			d.requireLogged(0, "secret-path")
			for _, got := range receiver.Requests() {
				require.Equal(t, "/hook/secret-path", got.Path, "nobody else was told")
			}
		})
	}
}

func TestThreeDayLimitSurvivesRestart(t *testing.T) {
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	receiver.Script(reply{Status: 422}, reply{Status: 422}, reply{Status: 422}, reply{Status: 422})
	a := d.announcer(receiver)
	d.pay()
	d.pay()
	for range 4 {
		a.rounds(t.Context())
		a.leave(t.Context())
		d.clock.Pass(24 * time.Hour)
		a = d.announcer(receiver)
	}
	require.Equal(t, []string{"card:pi_2:1"}, taken(t, receiver))
}

// Its handlers may not have been called.
func TestEventRepeatedAfterConfigurationEnds(t *testing.T) {
	d := newFixture(t)
	var raised []string
	a := d.configured(Config{Emit: func(_ string, data map[string]any) error {
		raised = append(raised, payoffertest.Untagged(t, data["id"].(string)))
		if len(raised) <= 2 {
			return context.Canceled
		}
		return nil
	}})
	d.pay()
	d.pay()
	a.rounds(t.Context())
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1"}, raised, "in order, and not before the pause is over")
	require.Equal(t, EndpointHealth{Host: "events", Behind: 2, LastError: "reloaded"}, a.health()[0])
	d.after(minPause, a)
	require.Equal(t, []string{"card:pi_1:1", "card:pi_1:1"}, raised)
	d.after(threeDays, a)
	require.Equal(t, []string{"card:pi_1:1", "card:pi_1:1", "card:pi_1:1", "card:pi_2:1"}, raised)
	require.Empty(t, a.health()[0].LastError)
}

// The ledger keeps the place of a receiver whose event it could not skip.
func TestReadOnlyLedgerSkipsNothing(t *testing.T) {
	d, receiver, a := listening(t)
	d.pay()
	d.pay()
	receiver.Script(always(reply{Status: 400})...)
	a.rounds(t.Context())
	d.outbox.unwritable.Store(true)
	d.after(threeDays, a)
	require.Equal(t, "ledger_unavailable", a.health()[0].LastError)
	d.requireLogged(0, "skipped after three days")
	d.outbox.unwritable.Store(false)
	d.clock.Pass(time.Hour)
	receiver.Script(reply{Status: 400})
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_2:1"}, taken(t, receiver))
}

// journal is a log of lines in JSON.
type journal struct{ bytes.Buffer }

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(j, nil)) }

// The line holds what a payment is looked up by, and not what its payer alone knows.
func TestJournalLineHidesReceiptURL(t *testing.T) {
	j := new(journal)
	c := Config{Journal: j.logger(), Offer: offer.Offer{Terms: offer.Terms{BaseURL: "https://pay.example"}}}
	require.Equal(t, failure{}, c.logTransition(t.Context(), newEvent(&c, transition(), false)))
	var line map[string]any
	require.NoError(t, json.Unmarshal(j.Bytes(), &line))
	delete(line, "time")
	require.Equal(t, map[string]any{
		"level": "INFO", "msg": "a receipt has changed", "change": "status from seen to confirmed; it was read from the chain", "rail": "usdc", "amount": "42.5 USDC", "usd": "42.50", "refunded": "0 USDC",
		"before": "seen", "status": "confirmed", "evidence": "chain", "counted": true, "own": false, "testnet": false,
		"reference": "eip155:8453:0xab:0", "number": 7.0, "version": 3.0, "cause": "poll", "cursor": "12.00000000000000ff", "id": "usdc:eip155:8453:0xab:0:3:00000000000000ff",
		"page": "caddy pay-offer received --receipts --before 8 --offer pay.example",
	}, line)
	require.NotContains(t, j.String(), "/receipt/")
}

// What was redacted is told of by its new name alone.
func TestJournalLineHidesRedactedReference(t *testing.T) {
	d, j, hook := newFixture(t), new(journal), payoffertest.NewReceiver(t)
	entered := cardObservation("Jane Doe", ledger.StatusConfirmed)
	entered.EvidenceLevel, entered.Note = ledger.LevelManual, "of Jane Doe"
	d.record(entered)
	a := d.configured(Config{Journal: j.logger(), Endpoints: []Endpoint{Webhook{URL: hook.URL()}}, Transport: hook.Transport()})
	_, err := d.outbox.Redact(t.Context(), testOffer, cardAccount, "Jane Doe", "redacted-1", "a name")
	require.NoError(t, err)
	a.rounds(t.Context())
	require.Equal(t, 1, strings.Count(j.String(), "\n"))
	require.Contains(t, j.String(), `"change":"another reference; you replaced its reference"`)
	require.NotContains(t, j.String(), "Jane")
	require.Empty(t, hook.Requests(), "no money moved")
}
