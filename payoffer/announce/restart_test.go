package announce

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

func TestALedgerThatIsAwayDelaysAndRepeatsNothing(t *testing.T) {
	d, receiver, a := listening(t)
	d.outbox.unwritable.Store(true)
	d.pay()
	d.pay()
	for range 3 {
		a.rounds(t.Context())
		d.clock.pass(pollEvery)
	}
	require.Equal(t, []string{"card:pi_1:1"}, taken(t, receiver), "the next one waits for the position")
	require.Equal(t, "ledger_unavailable", a.health()[0].LastError)
	d.requireLogged(1, "ledger failed")

	d.outbox.unreadable.Store(true)
	a.rounds(t.Context())
	d.outbox.unwritable.Store(false)
	d.outbox.unreadable.Store(false)
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1", "card:pi_2:1"}, taken(t, receiver))
	require.Empty(t, a.health()[0].LastError)
	d.requireLogged(1, "ledger works again")
}

// The reference is the ledger's own history.
func TestNoHistoryOfFaultsSkipsReordersOrAltersAnAnnouncement(t *testing.T) {
	for seed := range uint64(cases.Of(4, 8, 50)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			d, receiver := newFixture(t), payoffertest.NewReceiver(t)
			random := rand.New(rand.NewPCG(seed, 1))
			a := d.announcer(receiver)
			crashes := 0
			for range 60 {
				d.seen++
				d.record(randomObservation(random))
				receiver.Script(randomReply(random))
				d.outbox.unwritable.Store(random.IntN(4) == 0)
				a.rounds(t.Context())
				d.outbox.unwritable.Store(false)
				d.clock.pass(time.Duration(random.IntN(400)) * time.Second)
				if random.IntN(6) == 0 {
					crashes++
					d.clock.pass((leaseFor + 1) * time.Second)
					a = d.announcer(receiver)
				}
			}
			receiver.Script()
			d.after(time.Hour, a)
			requireWholeHistory(t, d, receiver, crashes)
		})
	}
}

// What is recorded between the start and the first round is not taken for what
// a new receiver has missed.
func TestReceiverThatWasLoadedMissesNothing(t *testing.T) {
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	d.pay() // before anybody was told of payments
	config := Config{
		Offer: offer.Offer{Terms: offer.Terms{ID: testOffer}}, Ledger: d.outbox, Owner: "first", Now: d.clock.now, Transport: receiver.Transport(),
		Endpoints: []Endpoint{Webhook{URL: receiver.URL(), Secrets: []string{testSecret}}},
	}
	first, err := New(config)
	require.NoError(t, err)
	require.NoError(t, Load(t.Context(), first))
	d.pay()
	config.Owner = "second"
	second, err := New(config)
	require.NoError(t, err)
	require.NoError(t, Load(t.Context(), second), "another instance starts meanwhile")
	d.pay()

	first.rounds(t.Context())
	second.rounds(t.Context())

	require.Equal(t, []string{"card:pi_2:1", "card:pi_3:1"}, taken(t, receiver))
}

// What waits for an endpoint that is down is counted whole, and from the start of the next process on.
func TestWhatWaitsIsCountedTrulyAndOverARestart(t *testing.T) {
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	receiver.Script(reply{Status: 503})
	before := d.announcer(receiver)
	var paid []ledger.Observation
	for n := range batch + 20 {
		paid = append(paid, cardObservation(fmt.Sprint("pi_", n), ledger.StatusConfirmed))
	}
	d.record(paid...)
	before.rounds(t.Context())
	waiting := EndpointHealth{Host: receiver.Host(), Behind: batch + 20, LastError: "server_error"}
	require.Equal(t, waiting, before.health()[0])

	config := *before.config
	config.Owner = "restarted"
	after, err := New(config)
	require.NoError(t, err)
	require.NoError(t, Load(t.Context(), after))
	waiting.LastError = "" // nothing was tried yet
	require.Equal(t, waiting, after.health()[0])
	d.clock.pass((leaseFor + 1) * time.Second)
	for _, want := range []time.Duration{0, pollEvery} { // what is more than a batch is due at once
		pause, err := after.subscribers[0].poll(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, pause)
	}
	require.Len(t, taken(t, receiver), batch+20)
	require.Equal(t, EndpointHealth{Host: receiver.Host()}, after.health()[0])
}

// A server may have a thousand offers.
func TestAStartWritesOnceForAllReceivers(t *testing.T) {
	d := newFixture(t)
	a, err := New(Config{
		Offer: offer.Offer{Terms: offer.Terms{ID: testOffer}}, Ledger: d.outbox, Owner: "first", Journal: new(journal).logger(), Emit: func(string, map[string]any) error { return nil },
	})
	require.NoError(t, err)
	require.NoError(t, Load(t.Context(), a))
	a.rounds(t.Context())
	require.EqualValues(t, 1, d.outbox.leased.Load())
}

// A receiver that recognizes duplicates by their ids takes what is entered anew
// under a reference of the history that was lost.
func TestNoIDIsUsedAgainAfterAnOlderCopyIsPutBack(t *testing.T) {
	var told []string
	for _, amount := range []int64{1000, 2500} { // before the loss, and after it
		d, receiver, a := listening(t)
		entered := cardObservation("INV-2", ledger.StatusConfirmed)
		entered.Amount = amount
		d.record(entered)
		a.rounds(t.Context())
		require.Equal(t, []string{"card:INV-2:1"}, taken(t, receiver))
		told = append(told, receiver.Requests()[0].Header.Get("webhook-id"))
	}
	require.NotEqual(t, told[0], told[1])
}
