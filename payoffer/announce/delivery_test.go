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
	d, receiver, a := listening(t)
	require.NoError(t, d.outbox.Register(t.Context(), ledger.Account{Offer: "other.example", ID: "plink_2", Rail: "card"}))
	foreign := cardObservation("pi_other", ledger.StatusConfirmed)
	foreign.Offer, foreign.Account = "other.example", "plink_2"
	d.record(foreign)
	d.pay()
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1"}, taken(t, receiver))
}

func TestAReceiverThatAsksForAPauseGetsIt(t *testing.T) {
	d, receiver, a := listening(t)
	d.pay()
	receiver.Script(reply{Status: 503, RetryAfter: "600"})
	a.rounds(t.Context())
	d.after(599*time.Second, a)
	require.Len(t, receiver.Requests(), 1)
	d.after(time.Second, a)
	require.Len(t, taken(t, receiver), 1)
}
