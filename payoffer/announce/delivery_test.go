package announce

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

type reply = payoffertest.AnnouncedReply

func TestEveryTransitionIsAnnouncedOnceAndInOrder(t *testing.T) {
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	d.pay() // before anybody listened
	a := d.announcer(receiver)
	d.record(usdcObservation("0xaa", ledger.StatusSeen), cardObservation("pi_x", ledger.StatusSeen))
	d.record(usdcObservation("0xaa", ledger.StatusConfirmed))
	a.rounds(t.Context())
	d.record(usdcObservation("0xaa", ledger.StatusDropped), cardObservation("pi_x", ledger.StatusConfirmed))
	d.record(usdcObservation("0xaa", ledger.StatusSeen)) // it is back
	a.rounds(t.Context())
	a.rounds(t.Context())
	require.Equal(t, []string{
		"usdc:eip155:84532:0xaa:0:1", "card:pi_x:1", "usdc:eip155:84532:0xaa:0:2",
		"usdc:eip155:84532:0xaa:0:3", "card:pi_x:2", "usdc:eip155:84532:0xaa:0:4",
	}, taken(t, receiver))
	require.Len(t, receiver.Requests(), 6)
}

func TestMoreThanABatchIsAnnouncedWhole(t *testing.T) {
	t.Parallel()
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	a := d.announcer(receiver)
	for range batch + 3 {
		d.pay()
	}
	for _, want := range []time.Duration{0, pollEvery} { // the rest is due at once
		pause, err := a.subscribers[0].poll(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, pause)
	}
	require.Len(t, taken(t, receiver), batch+3)
}

func TestAnOfferAnnouncesNothingOfAnother(t *testing.T) {
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	a := d.announcer(receiver)
	require.NoError(t, d.outbox.Register(t.Context(), ledger.Account{Offer: "other.example", ID: "plink_2", Rail: "card"}))
	foreign := cardObservation("pi_other", ledger.StatusConfirmed)
	foreign.Offer, foreign.Account = "other.example", "plink_2"
	d.record(foreign)
	d.pay()
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1"}, taken(t, receiver))
}

// Whatever a receiver does but to answer 2xx, the announcement waits and comes
// before the next one.
func TestAnAnnouncementThatWasNotTakenIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reply reply
		code  string
	}{
		"not found":             {reply{Status: 404}, "refused"},
		"unauthorized":          {reply{Status: 401}, "refused"},
		"server error":          {reply{Status: 500, Body: 1 << 20}, "server_error"},
		"unavailable":           {reply{Status: 503}, "server_error"},
		"too many":              {reply{Status: 429}, "rate_limited"},
		"moved for good":        {reply{Status: 308, Location: "/elsewhere"}, "redirected"},
		"found elsewhere":       {reply{Status: 302, Location: "/elsewhere"}, "redirected"},
		"not modified":          {reply{Status: 304}, "redirected"},
		"answer lost on return": {reply{Drop: true}, "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			d, receiver := newFixture(t), payoffertest.NewReceiver(t)
			a := d.announcer(receiver)
			d.pay()
			d.pay()
			receiver.Script(test.reply, test.reply)
			a.rounds(t.Context())
			require.Len(t, receiver.Requests(), 1)
			require.Empty(t, taken(t, receiver))
			require.Equal(t, EndpointHealth{Host: receiver.Host(), Behind: 2, LastError: test.code}, a.health()[0])
			a.rounds(t.Context())
			require.Len(t, receiver.Requests(), 1, "not before the pause is over")

			d.clock.pass(pauseFirst)
			a.rounds(t.Context())
			require.Len(t, receiver.Requests(), 2)
			d.clock.pass(pauseFirst)
			a.rounds(t.Context())
			require.Len(t, receiver.Requests(), 2, "the pause is longer now")
			d.clock.pass(pauseFirst)
			a.rounds(t.Context())
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

func TestAReceiverThatAsksForAPauseGetsIt(t *testing.T) {
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	a := d.announcer(receiver)
	d.pay()
	receiver.Script(reply{Status: 503, RetryAfter: "600"})
	a.rounds(t.Context())
	d.clock.pass(599 * time.Second)
	a.rounds(t.Context())
	require.Len(t, receiver.Requests(), 1)
	d.clock.pass(time.Second)
	a.rounds(t.Context())
	require.Len(t, taken(t, receiver), 1)
}
