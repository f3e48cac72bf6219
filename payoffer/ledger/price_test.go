package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// requirePrices requires the prices in force at some moment of a time.
func requirePrices(t *testing.T, l *Ledger, since, until int64, want ...int64) {
	t.Helper()
	require.Equal(t, want, must(l.Prices(t.Context(), testOffer, since, until))(t), "from %d to %d", since, until)
}

func TestPricesOfPeriod(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		start := func(at, cents int64) {
			t.Helper()
			require.NoError(t, l.StorePrices(t.Context(), at, map[string]int64{testOffer: cents, "other": 1}))
		}
		requirePrices(t, l, 0, 9_000)
		start(1_000, 4200)
		start(1_500, 4200)
		start(2_000, 5000)
		start(3_000, 3000)
		start(3_000, 3100)
		start(4_000, 5000)
		requirePrices(t, l, 1_000, 1_999, 4200)
		requirePrices(t, l, 1_999, 2_000, 5000, 4200)
		requirePrices(t, l, 2_000, 2_999, 5000)
		requirePrices(t, l, 2_999, 3_000, 5000, 3100)
		requirePrices(t, l, 1_000, 9_000, 5000, 4200, 3100)
		requirePrices(t, l, 9_000, 9_000, 5000)
		requirePrices(t, l, 0, 999, 4200)
		require.Equal(t, []int64{1}, must(l.Prices(t.Context(), "other", 0, 9_000))(t))
		count := must(collect(t.Context(), l, scanValue[int64], `SELECT count(*) FROM prices`))(t)
		require.Equal(t, []int64{5}, count, "a start without a change stores nothing")
	})
}

// A price that a clock ahead stored does not hide those of the right time.
func TestPricesIgnoreFuturePrice(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		for _, started := range [][2]int64{{1_000, 4200}, {90_000, 5000}, {2_000, 5000}} {
			require.NoError(t, l.StorePrices(t.Context(), started[0], map[string]int64{testOffer: started[1]}))
		}
		requirePrices(t, l, 1_500, 1_500, 4200)
		requirePrices(t, l, 2_000, 3_000, 5000)
	})
}

func TestStorePricesRefusesZero(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		require.Error(t, l.StorePrices(t.Context(), 1_000, map[string]int64{testOffer: 0}))
	})
}
