package bitcoin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

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
