package announce

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// randomObservation is about one of a few movements, so that they have lives.
func randomObservation(random *rand.Rand) ledger.Observation {
	states := []ledger.Status{ledger.StatusSeen, ledger.StatusConfirmed, ledger.StatusDropped}
	return usdcObservation(fmt.Sprintf("0x%02d", random.IntN(8)), states[random.IntN(len(states))])
}

func randomReply(random *rand.Rand) reply {
	replies := []reply{
		{}, {}, {}, {Status: 200, Body: 100}, {Drop: true}, {Status: 503}, {Status: 410}, {Status: 302, Location: "/"},
		{Status: 429, RetryAfter: "30"},
	}
	return replies[random.IntN(len(replies))]
}

// requireWholeHistory compares what was taken with the ledger's transitions:
// all of them, in their order, with nothing repeated but the last one before a
// crash.
func requireWholeHistory(t *testing.T, d *fixture, receiver *payoffertest.Receiver, crashes int) {
	t.Helper()
	transitions, err := d.outbox.Ledger.Transitions(t.Context(), testOffer, 0, 1000)
	require.NoError(t, err)
	require.NotEmpty(t, transitions)
	want := []string{}
	for _, tr := range transitions {
		want = append(want, fmt.Sprintf("usdc:%s:%d", tr.ExternalID, tr.Version))
	}
	got, repeated := []string{}, 0
	bodies := make(map[string]string)
	for _, a := range receiver.Requests() {
		id := a.Header.Get("webhook-id")
		if before, known := bodies[id]; known {
			require.Equal(t, before, string(a.Body), "the same id, another body")
		}
		bodies[id] = string(a.Body)
		switch {
		case !a.Taken:
		case len(got) > 0 && got[len(got)-1] == payoffertest.Untagged(t, id):
			repeated++
		default:
			got = append(got, payoffertest.Untagged(t, id))
		}
	}
	require.Equal(t, want, got)
	require.LessOrEqual(t, repeated, crashes)
}
