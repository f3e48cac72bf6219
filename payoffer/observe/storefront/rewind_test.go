package storefront

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

func TestARewoundRailIsReadFromItsOriginOnAndCountsNothingTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.mustRead()
	f.sell()
	f.pass(10 * 24 * time.Hour)
	now := strconv.FormatInt(f.now().Unix(), 10)
	_, err := f.book.Record(t.Context(), &ledger.Cursor{Offer: testOffer, Account: testAccount, Position: now, Anchor: now}) // what it never read
	require.NoError(t, err)
	f.mustRead()
	require.Zero(t, f.held())
	for range 2 {
		rewound, err := f.book.Rewind(t.Context(), testOffer, testAccount)
		require.NoError(t, err)
		require.True(t, rewound)
		f.mustRead()
		require.EqualValues(t, 4200, f.held())
	}
}
