package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheFirstStartStays(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, _ := d.ledger(t)
		register := func(id string, since int64, origin string) Account {
			require.NoError(t, l.Register(t.Context(), Account{Offer: testOffer, ID: id, Rail: id, Since: since, Origin: origin}))
			a, err := l.Account(t.Context(), testOffer, id)
			require.NoError(t, err)
			return a
		}
		require.EqualValues(t, 500, register("a", 500, "").Since)
		require.EqualValues(t, 500, register("a", 600, "").Since, "a second start is no first one")
		require.Zero(t, register("b", 0, "7").Since)
		require.Zero(t, register("b", 600, "").Since, "an origin that was found before starts were kept stays without one")
		_, err := l.Account(t.Context(), "other", "a")
		require.ErrorIs(t, err, errNotRegistered)
	})
}

func TestALoweredOriginHasTheAccountReadAgainOnce(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, _ := d.ledger(t)
		lower := func(to string) bool {
			t.Helper()
			lowered, err := l.LowerOrigin(t.Context(), testOffer, testAccount, to)
			require.NoError(t, err)
			return lowered
		}
		record := func(upon *string, position string) string {
			t.Helper()
			s := chainObservation("0x"+position, StatusSeen)
			_, err := l.Record(t.Context(), &Cursor{Offer: testOffer, Account: testAccount, Position: position, ExpectedPosition: upon}, s)
			require.NoError(t, err)
			stored, _, err := l.Cursor(t.Context(), testOffer, testAccount)
			require.NoError(t, err)
			return stored.Position
		}
		require.False(t, lower("900"), "there was none to be lowered")
		require.True(t, lower("800"))
		require.Equal(t, "1", record(ptr(""), "1"))
		require.Equal(t, "2", record(ptr("1"), "2"))
		require.Equal(t, "2", record(ptr("1"), "3"), "another instance moved the cursor")
		require.False(t, lower("800"))
		require.False(t, lower("1000"), "an origin is never raised")
		require.Equal(t, "2", record(ptr("1"), "4"), "the cursor stays")
		require.True(t, lower("99"))
		require.Empty(t, record(ptr("2"), "5"), "a cycle that began before")
		require.Equal(t, "6", record(ptr(""), "6"))
		require.False(t, lower("99"), "once")
		require.Equal(t, "7", record(nil, "7"))
		a, err := l.Account(t.Context(), testOffer, testAccount)
		require.NoError(t, err)
		require.Equal(t, "99", a.Origin)
		receipts, err := l.Receipts(t.Context(), testOffer, 0, 100)
		require.NoError(t, err)
		require.Len(t, receipts, 7, "rows stay")
		requireConsistent(t, l)
		for _, bad := range []string{"", "-1", "x", "1.5"} {
			_, err := l.LowerOrigin(t.Context(), testOffer, testAccount, bad)
			require.Error(t, err, bad)
		}
		_, err = l.LowerOrigin(t.Context(), testOffer, "nowhere", "1")
		require.ErrorIs(t, err, errNotRegistered)
	})
}
