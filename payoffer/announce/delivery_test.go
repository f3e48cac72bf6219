package announce

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

type reply = payoffertest.AnnouncedReply

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
