package bitcoin

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

// values are those of a transaction's outputs, in order, and what they were taken
// from; of all the same.
func (b *bench) values(name string) (cents []int64, basis ledger.ValueBasis) {
	b.Helper()
	all, err := b.db.Receipts(b.Context(), testOffer, 0, 1000)
	require.NoError(b, err)
	of := make(map[string]ledger.Receipt)
	for _, r := range all {
		of[r.ExternalID] = r
	}
	for i := range uint32(100) {
		r, found := of[outpoint{hashOf(name), i}.String()]
		if !found {
			continue
		}
		require.NotNil(b, r.USDCents)
		require.Contains(b, []ledger.ValueBasis{r.ValueBasis, ""}, basis)
		cents, basis = append(cents, *r.USDCents), r.ValueBasis
	}
	return cents, basis
}

// A wallet splits the amount that was asked for, or pays two of them with one
// transaction: what counts is what arrived.
func TestTransactionOutputsShareQuote(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		account string
		pays    []int64
		quoted  bool
		want    []int64
		basis   ledger.ValueBasis
	}{
		"halves of the quote":         {single, []int64{25_000, 25_000}, true, []int64{2100, 2100}, ledger.BasisQuote},
		"to two addresses of a key":   {zpub, []int64{30_000, 20_000}, true, []int64{2520, 1680}, ledger.BasisQuote},
		"thirds, rounded":             {single, []int64{16_667, 16_667, 16_666}, true, []int64{1400, 1400, 1400}, ledger.BasisQuote},
		"one that is worth no cent":   {single, []int64{50_000, 1}, true, []int64{4199, 1}, ledger.BasisQuote},
		"one of nothing":              {single, []int64{0, 50_000}, true, []int64{0, 4200}, ledger.BasisQuote},
		"two quotes":                  {single, []int64{50_000, 50_000}, true, []int64{4200, 4200}, ledger.BasisQuote},
		"less than the quote":         {single, []int64{15_000, 15_000}, true, []int64{1500, 1500}, ledger.BasisRate},
		"at the price, without quote": {single, []int64{20_000, 22_100}, false, []int64{2000, 2210}, ledger.BasisRate},
		"at the price, rounded":       {single, []int64{5, 5, 5}, false, []int64{0, 0, 1}, ledger.BasisRate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, chain := newBench(t, c.account), newFakeIndex(t, 100)
			b.rate = rate.Rate{MicroUSD: 100_000_000_000}
			o := b.observer(chain)
			b.round(o)
			if c.quoted {
				o.Quoted(50_000, 4200)
			}
			tx := fakeTx{name: "p", spends: hashOf("coin") + ":0", pays: []output{{strangers, 70_000}}}
			for i, satoshis := range c.pays {
				address := single
				if c.account == zpub {
					address = b.at(uint32(i))
				}
				tx.pays = append(tx.pays, output{scriptOf(address), satoshis}, output{strangers, 70_000})
			}
			chain.mine(tx)
			b.round(o)
			chain.mineEmpty(20)
			b.clock.Pass(200 * time.Minute)
			b.round(o)
			cents, basis := b.values("p")
			require.Equal(t, c.basis, basis)
			require.Equal(t, c.want, cents)
		})
	}
}

func TestOutputSharesAddUp(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range cases.Count(t) {
		outputs := make([]int64, 1+random.IntN(12))
		var all part
		for i := range outputs {
			outputs[i] = random.Int64N(1 << random.IntN(47))
			all.total += outputs[i]
		}
		cents := random.Int64N(math.MaxInt64 >> random.IntN(60))
		var sum int64
		for _, satoshis := range outputs {
			all.next(satoshis)
			share := *all.of(cents)
			require.GreaterOrEqual(t, share, int64(0))
			if all.total > 0 {
				exact := *scale(cents, satoshis, all.total)
				require.InDelta(t, 0, share-exact, 1, "%d of %v", satoshis, outputs)
			}
			sum += share
		}
		if all.total > 0 {
			require.Equal(t, cents, sum)
		}
	}
}

// A price falls, and its quote asks for fewer satoshis: who paid before did not pay
// that quote.
func TestQuoteMustPrecedePayment(t *testing.T) {
	t.Parallel()
	t.Run("than its first observation", func(t *testing.T) {
		t.Parallel()
		b, chain, o := unpriced(t)
		tx := pay("p", single, 50_000)
		chain.setPool(tx)
		b.round(o)
		b.clock.Pass(time.Second)
		o.Quoted(50_000, 4200)
		b.round(o)
		require.Nil(t, b.row("p").USDCents)
		chain.mineEmpty(3)
		chain.mine(tx) // when the quote is in force
		chain.mine()
		b.clock.Pass(time.Hour)
		b.rate = rate.Rate{MicroUSD: 60_000_000_000}
		b.round(o)
		b.requireWorth(3000, ledger.BasisRate)
	})
	t.Run("than its block", func(t *testing.T) {
		t.Parallel()
		for minutes, want := range map[int]int64{9: 4200, 10: 4200, 11: 3000, 40: 3000} {
			b, chain := newBench(t, single), newFakeIndex(t, 100)
			b.rate = rate.Rate{MicroUSD: 60_000_000_000}
			o := b.observer(chain)
			b.round(o)
			chain.mine(pay("p", single, 50_000)) // ten minutes after the start
			chain.mineEmpty(2)
			b.clock.Pass(time.Duration(minutes)*time.Minute - pollEvery)
			o.Quoted(50_000, 4200)
			b.round(o)
			require.Equal(t, want, *b.row("p").USDCents, "a quote after %d minutes", minutes)
		}
	})
}

// A published amount must not be valid longer than its quote, also after a restart, when the ledger has a quote that was
// stored up to renewEvery earlier.
func TestQuoteValidUntilIsHonoured(t *testing.T) {
	rail, err := offer.NewBitcoin("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "Example", 4200)
	require.NoError(t, err)
	published := time.Date(2026, 11, 21, 8, 30, 0, 0, time.UTC)
	until, err := time.Parse(time.RFC3339, rail.Methods(nil, offer.Live{Satoshis: 42_000, RateAt: published})[0].ValidUntil)
	require.NoError(t, err)
	stored := published.Add(-renewEvery - time.Minute)
	require.True(t, until.Before(stored.Add(quoteWindow)), "until %v", until)
}

// A quote is current while there is a rate, and until another one replaces it.
func TestQuoteIsStoredUntilItEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, single)
	o := b.observer(newFakeIndex(t, 100))
	last := func(satoshis int64, want bool) {
		t.Helper()
		_, found, err := b.db.Quoted(t.Context(), testOffer, satoshis, b.clock.Now().Unix(), b.clock.Now().Unix())
		require.NoError(t, err)
		require.Equal(t, want, found)
	}
	o.Quoted(50_000, 4200)
	b.clock.Pass(renewEvery)
	_, err := o.renewQuote(t.Context())
	require.NoError(t, err)
	last(50_000, true)
	b.clock.Pass(time.Minute)
	o.Quoted(50_000, 4200)
	o.Quoted(90_000, 4200)
	require.NoError(t, o.storeQuotes(t.Context()))
	last(50_000, true)
	last(90_000, true)
	b.clock.Pass(renewEvery)
	b.rate = rate.Rate{}
	_, err = o.renewQuote(t.Context())
	require.NoError(t, err)
	last(90_000, false)
}
