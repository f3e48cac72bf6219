package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPassesAreListedAndRevoked(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		older := Pass{ID: "older", Offer: testOffer, Note: "for jane@example.org", ExpiresAt: 9_000}
		newer := Pass{ID: "newer", Offer: testOffer, ExpiresAt: 8_000}
		foreign := Pass{ID: "foreign", Offer: "other-offer", ExpiresAt: 9_000}
		for n, p := range []Pass{older, newer, foreign} {
			clock.set(1_000 + int64(n))
			require.NoError(t, l.InsertPass(t.Context(), p))
		}
		older.CreatedAt, newer.CreatedAt = 1_000, 1_001
		list := func() []Pass {
			t.Helper()
			return must(l.Passes(t.Context(), testOffer))(t)
		}
		require.Equal(t, []Pass{newer, older}, list())
		require.Error(t, l.InsertPass(t.Context(), Pass{ID: "older", Offer: testOffer}), "an id is that of one pass")

		for _, unknown := range []string{"foreign", "none"} {
			_, found := find(l.Pass(t.Context(), testOffer, unknown))(t)
			require.False(t, found)
			err := l.RevokePass(t.Context(), testOffer, unknown)
			require.ErrorContains(t, err, unknown)
			require.ErrorContains(t, err, "caddy pay-offer pass")
		}

		clock.set(2_000)
		require.NoError(t, l.RevokePass(t.Context(), testOffer, "older"))
		clock.set(3_000)
		require.NoError(t, l.RevokePass(t.Context(), testOffer, "older"))
		older.Note, older.RevokedAt = "", 2_000
		p, found := find(l.Pass(t.Context(), testOffer, "older"))(t)
		require.True(t, found)
		require.Equal(t, older, p)
		require.Equal(t, []Pass{newer, older}, list())
		require.NotContains(t, everyText(t, l), "jane", "the note of a revoked pass names no person")
	})
}

func TestAPassThatCannotBeStoredIsRefused(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		for want, p := range map[string]Pass{
			"lacks an id":       {Offer: testOffer},
			"or an offer":       {ID: "p"},
			"write it in plain": {ID: "p", Offer: testOffer, Note: "a\x00b"},
		} {
			require.ErrorContains(t, l.InsertPass(t.Context(), p), want)
		}
	})
}
