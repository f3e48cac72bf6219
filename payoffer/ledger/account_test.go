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

func TestALoweredOriginLeavesWhatLiesBetweenToBeRead(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, _ := d.ledger(t)
		lower := func(to string) bool {
			lowered, err := l.LowerOrigin(t.Context(), testOffer, testAccount, to)
			require.NoError(t, err)
			return lowered
		}
		stands := func(origin, back string) {
			t.Helper()
			a, err := l.Account(t.Context(), testOffer, testAccount)
			require.NoError(t, err)
			require.Equal(t, []string{origin, back}, []string{a.Origin, a.Back})
		}
		require.False(t, lower("900"), "there was none to be lowered")
		stands("900", "")
		require.True(t, lower("800"))
		stands("800", "") // nothing was read yet: the normal reading begins there

		cursor := &Cursor{Offer: testOffer, Account: testAccount, Position: "1000"}
		record := func(back *string) {
			cursor.Back = back
			_, err := l.Record(t.Context(), cursor)
			require.NoError(t, err)
		}
		record(nil)
		require.False(t, lower("800"))
		require.False(t, lower("1000"), "an origin is never raised")
		stands("800", "")
		require.True(t, lower("99"))
		stands("99", "800")
		record(nil)
		stands("99", "800")
		record(ptr("500"))
		require.True(t, lower("9"))
		stands("9", "500") // what was read back so far stays read
		record(ptr(""))
		stands("9", "")
		for _, bad := range []string{"", "-1", "x", "1.5"} {
			_, err := l.LowerOrigin(t.Context(), testOffer, testAccount, bad)
			require.Error(t, err, bad)
		}
		_, err := l.LowerOrigin(t.Context(), testOffer, "nowhere", "1")
		require.ErrorIs(t, err, errNotRegistered)
	})
}

func TestARewoundCursorIsNotPutBackByWhoReadBefore(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, _ := d.ledger(t)
		record := func(upon *string, position string) string {
			t.Helper()
			s := chainSighting("0x"+position, StatusSeen)
			_, err := l.Record(t.Context(), &Cursor{Offer: testOffer, Account: testAccount, Position: position, Upon: upon}, s)
			require.NoError(t, err)
			stands, _, err := l.Cursor(t.Context(), testOffer, testAccount)
			require.NoError(t, err)
			return stands.Position
		}
		rewind := func(offer, account string) bool {
			t.Helper()
			rewound, err := l.Rewind(t.Context(), offer, account)
			require.NoError(t, err)
			return rewound
		}
		require.False(t, rewind(testOffer, testAccount), "there is none yet")
		require.Equal(t, "1", record(new(""), "1"), "upon none")
		require.Equal(t, "2", record(new("1"), "2"))
		require.Equal(t, "2", record(new("1"), "3"), "another instance was here")
		require.False(t, rewind("other", testAccount))
		require.False(t, rewind(testOffer, "other"))
		require.True(t, rewind(testOffer, testAccount))
		require.Empty(t, record(new("2"), "4"), "a round that was under way")
		require.Equal(t, "1", record(new(""), "1"), "from the origin on")
		require.Equal(t, "1", record(new("2"), "5"), "a long round that was under way")
		require.Equal(t, "6", record(nil, "6"))
		receipts, err := l.Receipts(t.Context(), testOffer, 0, 100)
		require.NoError(t, err)
		require.Len(t, receipts, 6, "the rows are there, whatever becomes of the cursor")
		requireConsistent(t, l)
	})
}
