package rate

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSatoshisIsTheExactQuotientRoundedUp(t *testing.T) {
	// Computed with exact fractions outside of this project.
	for _, c := range []struct{ cents, microUSD, want int64 }{
		{4200, 90_000_000_000, 46_667},
		{4200, 90_000_120_000, 46_667},
		{4200, 84_000_000_000, 50_000},
		{4200, 41_999_999_999, 100_001},
		{4200, 42_000_000_000, 100_000},
		{4200, 42_000_000_001, 100_000},
		{4200, 100_000_000, 42_000_000},
		{4200, 100_000_000_000_000, 42},
		{1, 90_000_000_000, 12},
		{1, 100_000_000_000_000, 1},
		{100_000_000, 100_000_000, 1_000_000_000_000},
	} {
		require.Equal(t, c.want, Satoshis(c.cents, Rate{MicroUSD: c.microUSD}), "%d cents at %d", c.cents, c.microUSD)
	}
}

func TestSatoshisOfWhatIsNoAmountIsZero(t *testing.T) {
	require.Zero(t, Satoshis(4200, Rate{}))
	require.Zero(t, Satoshis(4200, Rate{MicroUSD: -1}))
	require.Zero(t, Satoshis(0, Rate{MicroUSD: minPrice}))
	require.Zero(t, Satoshis(-4200, Rate{MicroUSD: minPrice}))
	require.Zero(t, Satoshis(math.MaxInt64, Rate{MicroUSD: minPrice}), "more than 64 bits")
	require.Zero(t, Satoshis(4200, Rate{MicroUSD: 1}), "more than all bitcoin")
}

func FuzzSatoshisAreWorthThePriceAndNotOneMore(f *testing.F) {
	f.Add(int64(4200), int64(90_000_000_000))
	f.Add(int64(1), int64(maxPrice))
	f.Add(int64(100_000_000), int64(minPrice))
	f.Fuzz(func(t *testing.T, cents, microUSD int64) {
		sats := Satoshis(cents, Rate{MicroUSD: microUSD})
		if sats == 0 {
			return
		}
		price := big.NewRat(cents, 100)
		worth := func(sats int64) *big.Rat {
			usd := new(big.Rat).Mul(big.NewRat(sats, 100_000_000), big.NewRat(microUSD, 1_000_000))
			return usd
		}
		require.GreaterOrEqual(t, worth(sats).Cmp(price), 0, "worth less than the price")
		require.Negative(t, worth(sats-1).Cmp(price), "a satoshi less would do")
	})
}
