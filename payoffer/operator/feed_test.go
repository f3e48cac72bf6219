package operator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
)

func TestFeedReturnsChangesAfterCursor(t *testing.T) {
	onEachLedger(t, func(t *testing.T, o *fixture) {
		o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusSeen)
		now := must(o.Feed(t.Context(), ""))(t)
		require.Equal(t, testOffer, now.Offer)
		require.Empty(t, now.Changes, "what was before is not told")

		o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed)
		o.sees("pack", "s_1", ledger.LevelProvider, ledger.StatusSeen)
		got := must(o.Feed(t.Context(), now.Cursor))(t)
		require.Len(t, got.Changes, 2)
		first := got.Changes[0]
		require.Equal(t, got.Changes[1].Cursor, got.Cursor)
		require.Regexp(t, `^card:pi_1:2:[0-9a-f]{16}$`, first.ID)
		require.Equal(t, "pi_1 seen confirmed 42 USD", first.Receipt+" "+*first.From+" "+first.To+" "+first.Value())
		require.Equal(t, "status from seen to confirmed; the provider reported it", first.Words)
		require.True(t, first.Counted)
		require.False(t, got.Changes[1].Counted)

		all := must(o.Feed(t.Context(), "0"))(t)
		require.Len(t, all.Changes, 3)
	})
}

func TestFeedCursorErrors(t *testing.T) {
	o := newFixture(t)
	o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed)
	for _, cursor := range []string{"x", "-1", "99", "1.2", "1.zzzzzzzzzzzzzzzz"} {
		requireRefusal(t, errorOf(o.Feed(t.Context(), cursor)), Invalid, "is not a cursor")
	}
	requireRefusal(t, errorOf(o.Feed(t.Context(), "1.00c0ffee00c0ffee")), Conflict, "an older backup was restored")
}

func TestFeedLongPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFixture(t)
		o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusSeen)
		now := must(o.Feed(t.Context(), ""))(t)

		begin := time.Now()
		none := must(o.Feed(t.Context(), now.Cursor))(t)
		require.Equal(t, now, none)
		require.Equal(t, feedTimeout, time.Since(begin))

		ctx, leave := context.WithTimeout(t.Context(), 3*feedPoll/2)
		defer leave()
		begin = time.Now()
		none = must(o.Feed(ctx, now.Cursor))(t)
		require.Equal(t, now, none)
		require.Equal(t, 3*feedPoll/2, time.Since(begin), "who leaves is not waited for")

		begin = time.Now()
		time.AfterFunc(feedPoll/2, func() { o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed) })
		some := must(o.Feed(t.Context(), now.Cursor))(t)
		require.Len(t, some.Changes, 1)
		require.Equal(t, feedPoll, time.Since(begin))
	})
}

func TestFeedDescribesEveryChange(t *testing.T) {
	onEachLedger(t, func(t *testing.T, o *fixture) {
		require.NoError(t, o.book.Register(t.Context(), ledger.Account{Offer: testOffer, ID: observations.CardAccount, Rail: "card"},
			ledger.Account{Offer: testOffer, ID: observations.ChainAccount, Rail: "usdc", Testnet: true}))
		for _, c := range observations.Changes() {
			for _, s := range c.Life {
				_, err := o.book.Record(t.Context(), nil, s)
				require.NoError(t, err, c.Name)
			}
		}
		last, cursor := map[string]string{}, "0"
		for range 2 { // there are more than one page holds
			page := must(o.Feed(t.Context(), cursor))(t)
			for _, change := range page.Changes {
				last[change.Receipt] = change.Words
			}
			cursor = page.Cursor
		}
		for _, c := range observations.Changes() {
			require.Equal(t, c.Words+"; "+c.Why, last[c.Name], c.Name)
		}
	})
}
