package announce

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// newInstances opens one new PostgreSQL database from two instances.
func newInstances(t *testing.T) [2]*desk {
	t.Helper()
	dsn := postgres.Shared(t).DSN(t)
	c := &clock{at: time.Unix(1_800_000_000, 0)}
	var desks [2]*desk
	for i := range desks {
		book, err := ledger.NewPostgres(dsn, c.now)
		require.NoError(t, err)
		desks[i] = deskAt(t, book, c)
	}
	return desks
}

func TestPostgresInstancesAnnounceEachTransitionOnceAndInOrder(t *testing.T) {
	t.Parallel() // it waits for the server, and instances for each other
	const payments = 20
	for name, make := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desks, f := newInstances(t), make(t)
			ctx, cancel := context.WithCancel(t.Context())
			var running, recording sync.WaitGroup
			for n, d := range desks {
				a := f.announcer(d)
				running.Go(func() { a.Run(ctx) })
				recording.Go(func() {
					for i := range payments {
						if _, err := d.book.Record(ctx, nil, cardSighting(fmt.Sprintf("pi_%d_%d", n, i), ledger.StatusConfirmed)); err != nil {
							t.Error(err)
						}
						a.Notify()
					}
				})
			}
			recording.Wait()
			f.await(len(desks) * payments)
			cancel()
			running.Wait()
			require.Equal(t, f.history(desks[0]), f.taken())
		})
	}
}

func TestAPostgresInstanceTakesOverFromOneThatDied(t *testing.T) {
	t.Parallel()
	desks, receiver := newInstances(t), payoffertest.NewReceiver(t)
	first, second := desks[0].announcer(receiver), desks[1].announcer(receiver)
	desks[0].pay()
	first.rounds(t.Context())
	receiver.Script(reply{Status: 503})
	desks[0].pay()
	first.rounds(t.Context()) // it waits for its second try, and dies

	requests := len(receiver.Requests())
	second.rounds(t.Context())
	require.Len(t, receiver.Requests(), requests, "one instance at a time")
	require.Zero(t, second.Sinks()[0].Behind)
	desks[1].clock.pass(leaseFor * time.Second)
	second.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1", "card:pi_2:1"}, taken(t, receiver))
}

// Clocks differ, and an event handler may take longer than the lease lasts.
func TestAnInstanceThatWasOvertakenLeavesTheReceiverToTheOther(t *testing.T) {
	d := newDesk(t)
	ahead := func() time.Time { return d.clock.now().Add((leaseFor + 1) * time.Second) }
	var got []string
	events := func(who string, meanwhile func()) func(string, map[string]any) error {
		return func(_ string, data map[string]any) error {
			got = append(got, who+" "+payoffertest.Untagged(t, data["id"].(string)))
			meanwhile()
			return nil
		}
	}
	fast := d.configured(Config{Now: ahead, Emit: events("fast", func() {})})
	d.clock.pass(2 * leaseFor * time.Second)
	slow := d.configured(Config{Emit: events("slow", func() { fast.rounds(t.Context()) })})
	d.pay()
	d.pay()
	slow.rounds(t.Context())
	require.Equal(t, []string{"slow card:pi_1:1", "fast card:pi_1:1", "fast card:pi_2:1"}, got)
	require.Empty(t, slow.Sinks()[0].LastError)
	d.requireLogged(0, "level=WARN")
}

func TestAnInstanceForgetsTheTroubleOfAReceiverThatIsAnothers(t *testing.T) {
	d, receiver := newDesk(t), payoffertest.NewReceiver(t)
	first, second := d.announcer(receiver), d.announcer(receiver)
	receiver.Script(reply{Status: 410}, reply{Status: 503})
	d.pay()
	first.rounds(t.Context())
	require.Equal(t, SinkHealth{Host: receiver.Host(), Behind: 1, LastError: "gone"}, first.Sinks()[0])
	d.clock.pass((leaseFor + 1) * time.Second) // the first is suspended
	second.rounds(t.Context())
	first.rounds(t.Context())
	require.Equal(t, SinkHealth{Host: receiver.Host()}, first.Sinks()[0])

	d.clock.pass((leaseFor + 1) * time.Second) // the second has died
	first.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1"}, taken(t, receiver), "it does not wait for the hour of its own failure")
}

func TestAClockThatIsSetBackADayDelaysNoTakeover(t *testing.T) {
	d, receiver := newDesk(t), payoffertest.NewReceiver(t)
	first := d.announcer(receiver)
	receiver.Script(reply{Status: 503})
	d.pay()
	first.rounds(t.Context())
	d.clock.pass(-24 * time.Hour)
	first.rounds(t.Context()) // and it dies
	d.clock.pass((leaseFor + 1) * time.Second)
	second := d.announcer(receiver)
	second.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1"}, taken(t, receiver))
}
