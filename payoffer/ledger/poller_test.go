package ledger

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// heard is a poller with the calls of its listeners.
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

func TestPollerReportsOpenIntents(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, clock, h := pulsing(t, d)
		i := testIntent("0xa", "0x01")
		require.NoError(t, l.InsertIntent(t.Context(), i))
		require.Empty(t, h.beat(), "an attempt works on it")
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

func TestPollerReportsDueClaims(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, clock, h := pulsing(t, d)
		i := testIntent("0xa", "0x01")
		require.NoError(t, l.InsertIntent(t.Context(), i))
		require.NoError(t, l.SettleIntent(t.Context(), i.IntentKey, "0x1", nil, EvidenceFacilitator))
		for range 2 {
			require.Equal(t, []string{"intents of " + testOffer}, h.beat(), "until they are taken: the process may end before")
		}

		must(l.TakeDueClaims(t.Context(), testOffer, testAccount, 10))(t)
		require.Empty(t, h.beat())
		clock.unix += accounting.UntilPoll(1_000, l.now(), longestClaim)
		require.Equal(t, []string{"intents of " + testOffer}, h.beat(), "at once when it is due")

		clock.unix += jump
		require.Len(t, must(l.TakeDueClaims(t.Context(), testOffer, testAccount, 10))(t), 1)
		clock.unix -= jump
		require.Equal(t, []string{"intents of " + testOffer}, h.beat(), "a wrong clock said when it is due")
	})
}

func TestPollerReportsTransitionsPerOffer(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, _, h := pulsing(t, d)
		for _, offer := range []string{testOffer, secondOffer} {
			find(l.LeaseSubscriber(t.Context(), offer, "hook", "a", 100, 100))(t)
		}
		require.Empty(t, h.beat())
		mustRecord(t, l, chainObservation("0xa", StatusSeen))
		for range 2 {
			require.Equal(t, []string{"transitions of " + testOffer}, h.beat(), "until they are processed")
		}
		other := chainObservation("0xb", StatusSeen)
		other.Offer, other.Account = secondOffer, secondAccount
		mustRecord(t, l, other)
		require.Equal(t, []string{"transitions of " + testOffer, "transitions of " + secondOffer}, h.beat())

		last := must(l.Last(t.Context(), testOffer))(t)
		require.NoError(t, l.AdvanceSubscriber(t.Context(), testOffer, "hook", "a", last.Seq))
		require.Equal(t, []string{"transitions of " + secondOffer}, h.beat())
	})
}

func TestPollerContinuesAfterLedgerError(t *testing.T) {
	sqliteOnly(t, func(t *testing.T, d testDialect) {
		where := d.create(t)
		l, _ := d.ledgerAt(t, where)
		h := newHeard(t, l, testOffer)
		require.Empty(t, h.beat())
		require.NoError(t, l.Close())
		require.Empty(t, h.beat())
		require.NoError(t, l.Open(t.Context()))
		find(l.LeaseSubscriber(t.Context(), testOffer, "hook", "a", 100, 100))(t)
		mustRecord(t, l, chainObservation("0xa", StatusSeen))
		require.Equal(t, []string{"transitions of " + testOffer}, h.beat())
	})
}

func TestSubscriberLeaseIsExclusive(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		lease := func(offer, owner string, now, until int64) (int64, bool) {
			after, held := find(l.LeaseSubscriber(t.Context(), offer, "hook", owner, now, until))(t)
			return after, held
		}
		mustRecord(t, l, chainObservation("0xa", StatusSeen))
		mustRecord(t, l, chainObservation("0xb", StatusSeen))
		transitions := must(l.Transitions(t.Context(), testOffer, 0, 10))(t)
		newest := transitions[1].Seq

		after, held := lease(testOffer, "a", 100, 200)
		require.True(t, held)
		require.Equal(t, newest, after, "it starts after earlier transitions")
		after, held = lease("other", "b", 100, 200)
		require.True(t, held)
		require.Zero(t, after, "an offer has its own subscribers")
		mustRecord(t, l, chainObservation("0xc", StatusSeen))

		_, held = lease(testOffer, "b", 199, 300)
		require.False(t, held)
		require.ErrorIs(t, l.AdvanceSubscriber(t.Context(), testOffer, "hook", "b", newest+1), ErrSubscriberTaken)
		require.NoError(t, l.AdvanceSubscriber(t.Context(), testOffer, "hook", "a", newest+1))
		require.NoError(t, l.AdvanceSubscriber(t.Context(), testOffer, "hook", "a", newest), "it never goes back")
		after, held = lease(testOffer, "a", 150, 400)
		require.True(t, held, "its owner holds on to it")
		require.Equal(t, newest+1, after)

		_, held = lease(testOffer, "b", 399, 500)
		require.False(t, held)
		after, held = lease(testOffer, "b", 400, 500)
		require.True(t, held, "the lease ran out")
		require.Equal(t, newest+1, after)
		require.ErrorIs(t, l.AdvanceSubscriber(t.Context(), testOffer, "hook", "a", newest+9), ErrSubscriberTaken)

		_, held = lease(testOffer, "b", 401, 401)
		require.True(t, held)
		_, held = lease(testOffer, "a", 401, 500)
		require.True(t, held, "it was given up")
		require.ErrorIs(t, l.AdvanceSubscriber(t.Context(), testOffer, "unknown", "a", 1), ErrSubscriberTaken)
	})
}

// TestPostgresSubscriberLeaseIsExclusive lets instances ask for a new subscriber at once.
func TestPostgresSubscriberLeaseIsExclusive(t *testing.T) {
	t.Parallel()
	all := instances(t, 4)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		owners := make(chan string, len(all))
		for n, l := range all {
			go func() {
				owner := string(rune('0' + n))
				if _, held, err := l.LeaseSubscriber(t.Context(), testOffer, name, owner, 100, 200); err != nil || !held {
					owner = ""
				}
				owners <- owner
			}()
		}
		held := 0
		for range all {
			if <-owners != "" {
				held++
			}
		}
		require.Equal(t, 1, held)
	}
}

func TestRefuseTransitionKeepsFirstTime(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		refuse := func(now int64) int64 {
			return must(l.RefuseTransition(t.Context(), testOffer, "hook", "a", now))(t)
		}
		find(l.LeaseSubscriber(t.Context(), testOffer, "hook", "a", 100, 200))(t)
		require.EqualValues(t, 110, refuse(110))
		require.EqualValues(t, 110, refuse(120))
		require.EqualValues(t, 105, refuse(105), "the clock was ahead")
		require.ErrorIs(t, errorOf(l.RefuseTransition(t.Context(), testOffer, "hook", "b", 130)), ErrSubscriberTaken)
		require.NoError(t, l.AdvanceSubscriber(t.Context(), testOffer, "hook", "a", 1))
		require.EqualValues(t, 140, refuse(140))
	})
}

func TestFeedResumesAtBookmark(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		for _, id := range []string{"pi_1", "pi_2", "pi_3"} {
			mustRecord(t, l, cardObservation(id, StatusConfirmed))
		}
		var seen []string
		at := Bookmark{}
		for {
			next := must(l.Feed(t.Context(), testOffer, at, 2))(t)
			if len(next) == 0 {
				break
			}
			for _, tr := range next {
				seen = append(seen, tr.ExternalID)
			}
			kept := next[len(next)-1].Bookmark().String() // as its reader keeps it
			var ok bool
			at, ok = ParseBookmark(kept)
			require.True(t, ok, kept)
		}
		require.Equal(t, []string{"pi_1", "pi_2", "pi_3"}, seen)
	})
}

// What was written after the copy that
// was put back is gone, and its numbers are given to something else.
func TestFeedRefusesForeignBookmark(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		before, _ := d.ledger(t)
		after, _ := d.ledger(t)
		for _, l := range []*Ledger{before, after} {
			mustRecord(t, l, cardObservation("pi_1", StatusConfirmed))
			mustRecord(t, l, cardObservation("pi_2", StatusConfirmed))
		}
		read := must(before.Feed(t.Context(), testOffer, Bookmark{}, 10))(t)
		kept := read[1].Bookmark()
		require.EqualValues(t, 2, kept.Seq)
		require.ErrorIs(t, errorOf(after.Feed(t.Context(), testOffer, kept, 10)), ErrBookmark)
		_, err := after.Feed(t.Context(), testOffer, Bookmark{Seq: 999}, 10)
		require.ErrorIs(t, err, ErrBookmark, "this history does not have it")
		_, err = before.Feed(t.Context(), "other", kept, 10)
		require.ErrorIs(t, err, ErrBookmark, "a place is one of an offer's own history")
	})
}

func TestParseBookmarkRoundTrip(t *testing.T) {
	for _, b := range []Bookmark{{}, {Seq: 7}, {Seq: 1 << 62, Tag: -1}} {
		read, ok := ParseBookmark(b.String())
		require.True(t, ok)
		require.Equal(t, b, read)
	}
	for _, s := range []string{"", "-1", "x", "1", "0.0000000000000000", "1.", "1.0", "1.zzzzzzzzzzzzzzzz", "1.00000000000000000", ".0000000000000000", "1.-000000000000001", "99999999999999999999"} {
		_, ok := ParseBookmark(s)
		require.False(t, ok, s)
	}
}

func FuzzParseBookmark(f *testing.F) {
	f.Add("7.00000000000000ff")
	f.Add("+7")
	f.Fuzz(func(t *testing.T, s string) {
		b, ok := ParseBookmark(s)
		if !ok {
			require.Zero(t, b)
			return
		}
		again, ok := ParseBookmark(b.String())
		require.True(t, ok)
		require.Equal(t, b, again)
	})
}
