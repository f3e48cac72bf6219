package ledger

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// heard is a pulse, and what it told since it was asked last.
type heard struct {
	*DuePoller
	t     *testing.T
	lines []string
}

func newHeard(t *testing.T, l *Ledger, offers ...string) *heard {
	h := &heard{DuePoller: NewDuePoller(l), t: t}
	for _, offer := range offers {
		t.Cleanup(h.listen(offer))
	}
	return h
}

func (h *heard) listen(offer string) (stop func()) {
	return h.Listen(offer, Callbacks{
		Intents:     func() { h.lines = append(h.lines, "intents of "+offer) },
		Transitions: func() { h.lines = append(h.lines, "transitions of "+offer) },
	})
}

// beat is what one beat tells, each once.
func (h *heard) beat() []string {
	h.lines = []string{}
	h.Poll(h.t.Context())
	slices.Sort(h.lines)
	return slices.Compact(h.lines)
}

const secondOffer, secondAccount = "second", "eip155:84532/erc20:0xtoken/0xsecond"

func pulsing(t *testing.T, d testDialect) (*Ledger, *testClock, *heard) {
	l, clock := d.ledger(t)
	require.NoError(t, l.Register(t.Context(), Account{Offer: secondOffer, ID: secondAccount, Rail: "usdc", Testnet: true}))
	h := newHeard(t, l, testOffer, secondOffer)
	require.Empty(t, h.beat(), "nothing is due on a new ledger")
	return l, clock, h
}

func TestAnOfferHearsOfItsOpenIntentsUntilTheyAreDecided(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, clock, h := pulsing(t, d)
		i := testIntent("0xa", "0x01")
		require.NoError(t, l.InsertIntent(t.Context(), i))
		require.Empty(t, h.beat(), "somebody works on it")
		clock.unix += 60
		for range 3 {
			require.Equal(t, []string{"intents of " + testOffer}, h.beat())
		}
		require.NoError(t, l.UpdateOpenIntent(t.Context(), i.IntentKey, "me", clock.unix, "", ""))
		require.Empty(t, h.beat(), "it was looked at")
		clock.unix += 8
		require.Equal(t, []string{"intents of " + testOffer}, h.beat())
		require.NoError(t, l.RefuseIntent(t.Context(), i.IntentKey, "expired"))
		require.Empty(t, h.beat())
	})
}

func TestAnOfferHearsOfItsClaimsWhenTheyAreToBeLookedAt(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, clock, h := pulsing(t, d)
		i := testIntent("0xa", "0x01")
		require.NoError(t, l.InsertIntent(t.Context(), i))
		require.NoError(t, l.SettleIntent(t.Context(), i.IntentKey, "0x1", nil, EvidenceFacilitator))
		clock.unix += int64(pollAllEvery / time.Second)
		require.Equal(t, []string{"intents of " + testOffer}, h.beat())
		clock.unix++
		require.Empty(t, h.beat(), "it was told")
		clock.unix += int64(pollAllEvery / time.Second)
		require.Equal(t, []string{"intents of " + testOffer}, h.beat(), "who was told may have died")

		must(l.TakeDueClaims(t.Context(), testOffer, testAccount, 10))(t)
		require.Empty(t, h.beat())
		clock.unix += untilPoll(1_000, l.now(), longestClaim)
		require.Equal(t, []string{"intents of " + testOffer}, h.beat(), "at once when it is due")
	})
}

func TestAnOfferHearsOfItsTransitionsAlone(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, _, h := pulsing(t, d)
		mustRecord(t, l, chainObservation("0xa", StatusSeen))
		require.Equal(t, []string{"transitions of " + testOffer}, h.beat())
		require.Empty(t, h.beat())
		other := chainObservation("0xb", StatusSeen)
		other.Offer, other.Account = secondOffer, secondAccount
		mustRecord(t, l, other)
		mustRecord(t, l, chainObservation("0xa", StatusConfirmed))
		require.Equal(t, []string{"transitions of " + testOffer, "transitions of " + secondOffer}, h.beat())
	})
}

func TestWhoBeginsToListenHearsWhatASinkHasLeft(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		_, held := find(l.LeaseSubscriber(t.Context(), testOffer, "hook", "a", 100, 100))(t)
		require.True(t, held)
		mustRecord(t, l, chainObservation("0xa", StatusSeen))
		h := newHeard(t, l, testOffer)
		require.Equal(t, []string{"transitions of " + testOffer}, h.beat())
		require.Empty(t, h.beat())
		clock.unix += int64(pollAllEvery / time.Second)
		require.Equal(t, []string{"transitions of " + testOffer}, h.beat(), "it is not done with them yet")

		last := must(l.Last(t.Context(), testOffer))(t)
		require.NoError(t, l.AdvanceSubscriber(t.Context(), testOffer, "hook", "a", last.Seq))
		t.Cleanup(h.listen(testOffer))
		require.Empty(t, h.beat(), "it is done with all")
	})
}

func TestAPulseGoesOnAfterAnErrorOfTheLedger(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		where := d.create(t)
		l, _ := d.ledgerAt(t, where)
		h := newHeard(t, l, testOffer)
		require.Empty(t, h.beat())
		require.NoError(t, l.Close())
		require.Empty(t, h.beat())
		require.NoError(t, l.Open(t.Context()))
		mustRecord(t, l, chainObservation("0xa", StatusSeen))
		require.Equal(t, []string{"transitions of " + testOffer}, h.beat())
	})
}
