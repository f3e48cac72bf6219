package bitcoin

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

func TestAPaymentIsWorthWhatItWasQuotedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		paid    int64
		after   time.Duration
		restart bool
		want    int64
		basis   ledger.ValueBasis
	}{
		"exactly, in time":        {50_000, 59 * time.Minute, false, 4200, ledger.BasisQuote},
		"after a restart":         {50_000, 59 * time.Minute, true, 4200, ledger.BasisQuote},
		"too late":                {50_000, 61 * time.Minute, false, 3500, ledger.BasisRate},
		"too late, after restart": {50_000, 61 * time.Minute, true, 3500, ledger.BasisRate},
		"a satoshi less":          {49_999, time.Minute, false, 3499, ledger.BasisRate},
		"a satoshi more":          {50_001, time.Minute, false, 4200, ledger.BasisQuote},
		"a tenth more":            {55_000, time.Minute, false, 4620, ledger.BasisQuote},
		"a tenth more, too late":  {55_000, 61 * time.Minute, false, 3850, ledger.BasisRate},
		"more than both quotes":   {150_000, time.Minute, true, 10_500, ledger.BasisQuote},
	} {
		for _, waits := range []bool{true, false} {
			t.Run(fmt.Sprint(name, map[bool]string{true: ", seen in the mempool"}[waits]), func(t *testing.T) {
				b, chain, o := observed(t, single)
				o.Quoted(50_000, 4200)
				b.rate = rate.Rate{} // the quote is not published any more
				b.round(o)
				b.clock.advance(c.after - pollEvery - pollEvery)
				chain.mineEmpty(int(c.after / (10 * time.Minute)))
				b.rate = rate.Rate{MicroUSD: 70_000_000_000}
				if c.restart {
					o = b.observer(chain)
				}
				o.Quoted(60_000, 4200)
				tx := pay("p", single, c.paid)
				if waits {
					chain.setPool(tx)
					b.round(o)
					value := b.row("p").USDCents
					require.Equal(t, c.basis == ledger.BasisQuote, value != nil, "who waits may never be mined, and no price is guessed")
				}
				chain.bury(1, tx)
				b.round(o)
				b.requireWorth(c.want, c.basis)
			})
		}
	}
}

func TestAQuoteHoldsForAPaymentDuringDowntime(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newFakeIndex(t, 100)
	o := b.observer(chain)
	o.Quoted(50_000, 4200)
	b.round(o)
	chain.mine(pay("p", single, 50_000)) // ten minutes later
	chain.mineEmpty(100)
	b.clock.advance(17 * time.Hour)
	b.round(b.observer(chain))
	require.Equal(t, int64(4200), *b.row("p").USDCents)
}

// A payment without a quote is worth the price at the time of its block, however late it
// counts.
func TestThePriceAtTheTimeOfTheBlockIsFixed(t *testing.T) {
	b, chain, o := observedBeside(t, single)
	tx := pay("p", single, 100_000)
	chain.setPool(tx)
	b.round(o)
	require.Nil(t, b.row("p").USDCents, "the payer can still withdraw it")
	b.clock.advance(3 * time.Hour)
	chain.mineEmpty(18)
	b.rate.MicroUSD = 80_000_000_000
	chain.mine(tx)
	b.round(o)
	require.Nil(t, b.row("p").USDCents, "it does not count yet")
	b.rate.MicroUSD = 120_000_000_000
	for range 20 {
		chain.mine()
		b.round(b.observer(chain))
	}
	b.requireWorth(8_000, ledger.BasisRate)
	require.True(t, b.row("p").Final)
}

// A payment from a time without a price, and one that is read much later, have no
// value: the price of another time is not theirs.
func TestAnOldPaymentHasNoValue(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]time.Duration{"an hour": time.Hour, "a second more": time.Hour + time.Second, "days": 100 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, chain, o := unpriced(t)
			chain.mine(pay("p", single, 100_000)) // ten minutes after the start
			chain.mineEmpty(20)
			b.round(o)
			require.Nil(t, b.row("p").USDCents)
			b.requireState("p", ledger.StatusConfirmed)
			require.True(t, b.row("p").Final)
			b.newLedger(start.Unix())
			b.rate = rate.Rate{MicroUSD: 90_000_000_000}
			b.clock.advance(start.Add(10*time.Minute + late - pollEvery).Sub(b.clock.Now()))
			b.round(b.observer(chain))
			if late <= time.Hour {
				require.Equal(t, int64(9_000), *b.row("p").USDCents)
				return
			}
			require.Nil(t, b.row("p").USDCents)
			b.requireState("p", ledger.StatusConfirmed)
		})
	}
}

// What the operator states of a payment is not taken for what a source knows.
func TestAStatedValueGivesWayToThePrice(t *testing.T) {
	t.Parallel()
	b, chain, o := unpriced(t)
	chain.bury(1, pay("p", single, 100_000))
	b.round(o)
	row := b.row("p")
	_, err := b.db.Record(t.Context(), nil, ledger.Observation{
		Offer: row.Offer, Account: row.Account, Rail: row.Rail, ExternalID: row.ExternalID, Addendum: true,
		EvidenceLevel: ledger.LevelManual, Stated: &ledger.StatedValue{USDCents: 9_500, At: b.clock.Now().Unix()}, Cause: "stated",
	})
	require.NoError(t, err)
	require.Equal(t, ledger.BasisStated, b.row("p").ValueBasis)
	b.round(o)
	b.requireWorth(9_500, ledger.BasisStated)
	chain.rewind(2) // and is not found any more
	chain.mineEmpty(3)
	b.round(o)
	require.Equal(t, ledger.BasisStated, b.row("p").ValueBasis)
	chain.bury(20, pay("p", single, 100_000))
	b.rate = rate.Rate{MicroUSD: 100_000_000_000}
	b.round(o)
	b.requireWorth(10_000, ledger.BasisRate)
}

func TestWorthIsRoundedDown(t *testing.T) {
	t.Parallel()
	// Computed with exact fractions outside of this project.
	for _, c := range []struct{ satoshis, microUSD, want int64 }{
		{46_667, 90_000_000_000, 4200}, {46_666, 90_000_000_000, 4199}, {1, 90_000_000_000, 0},
		{0, 90_000_000_000, 0}, {maxSatoshis, 100_000_000_000_000, 210_000_000_000_000_000},
	} {
		require.Equal(t, c.want, *scale(c.satoshis, c.microUSD, satoshisPerBTC*microUSDPerCent))
	}
	require.Nil(t, scale(maxSatoshis, math.MaxInt64, satoshisPerBTC*microUSDPerCent), "more than the ledger can hold")
}
