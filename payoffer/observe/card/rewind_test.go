package card

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

func TestARewoundRailIsReadFromItsOriginOnAndCountsNothingTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	require.NoError(t, r.try(t))
	m := newMarket(r.processor)
	m.trade(r.clock, 24, 3*day/24)
	r.clock.pass(2 * time.Hour)
	_, err := r.book.Record(t.Context(), &ledger.Cursor{ // what it never read
		Offer: "shop", Account: testAccount, Position: strconv.FormatInt(r.clock.Now().Unix(), 10),
	})
	require.NoError(t, err)
	require.NoError(t, r.try(t))
	require.Less(t, len(outcomes(t, r.book)), len(m.outcomes()))
	for range 2 {
		rewound, err := r.book.Rewind(t.Context(), "shop", testAccount)
		require.NoError(t, err)
		require.True(t, rewound)
		require.NoError(t, r.try(t))
		requireOutcomes(t, m.outcomes(), outcomes(t, r.book))
	}
}
