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
func newInstances(t *testing.T) [2]*fixture {
	t.Helper()
	dsn := postgres.Shared(t).DSN(t)
	c := &clock{at: time.Unix(1_800_000_000, 0)}
	var fixtures [2]*fixture
	for i := range fixtures {
		l, err := ledger.NewPostgres(dsn, c.now)
		require.NoError(t, err)
		fixtures[i] = fixtureAt(t, l, c)
	}
	return fixtures
}

func TestPostgresInstancesAnnounceEachTransitionOnceAndInOrder(t *testing.T) {
	t.Parallel() // it waits for the server, and instances for each other
	const payments = 20
	for name, make := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fixtures, f := newInstances(t), make(t)
			ctx, cancel := context.WithCancel(t.Context())
			var running, recording sync.WaitGroup
			for n, d := range fixtures {
				a := f.announcer(d)
				running.Go(func() { a.Run(ctx) })
				recording.Go(func() {
					for i := range payments {
						if _, err := d.outbox.Record(ctx, nil, cardObservation(fmt.Sprintf("pi_%d_%d", n, i), ledger.StatusConfirmed)); err != nil {
							t.Error(err)
						}
						a.Notify()
					}
				})
			}
			recording.Wait()
			f.await(len(fixtures) * payments)
			cancel()
			running.Wait()
			require.Equal(t, f.history(fixtures[0]), f.taken())
		})
	}
}

func TestAPostgresInstanceTakesOverFromOneThatDied(t *testing.T) {
	t.Parallel()
	fixtures, receiver := newInstances(t), payoffertest.NewReceiver(t)
	first, second := fixtures[0].announcer(receiver), fixtures[1].announcer(receiver)
	fixtures[0].pay()
	first.rounds(t.Context())
	receiver.Script(reply{Status: 503})
	fixtures[0].pay()
	first.rounds(t.Context()) // it waits for its second try, and dies

	requests := len(receiver.Requests())
	second.rounds(t.Context())
	require.Len(t, receiver.Requests(), requests, "one instance at a time")
	require.EqualValues(t, 1, second.health()[0].Behind, "whoever delivers it")
	fixtures[1].clock.pass(leaseFor * time.Second)
	second.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1", "card:pi_2:1"}, taken(t, receiver))
}

// Clocks differ, and an event handler may take longer than the lease lasts.
func TestAnInstanceThatWasOvertakenLeavesTheReceiverToTheOther(t *testing.T) {
	d := newFixture(t)
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
	require.Empty(t, slow.health()[0].LastError)
	d.requireLogged(0, "level=WARN")
}

func TestAClockThatIsSetBackADayDelaysNoTakeover(t *testing.T) {
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
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
