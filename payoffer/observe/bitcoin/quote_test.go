package bitcoin

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

// hook runs something after what a round starts from was read.
type hook struct {
	Ledger
	recalled func()
}

func (h hook) Unfinal(ctx context.Context, offer, account string, limit int) ([]ledger.Receipt, error) {
	rows, err := h.Ledger.Unfinal(ctx, offer, account, limit)
	h.recalled()
	return rows, err
}

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
				b, chain := newBench(t, single), newStandIn(t, 100)
				o := b.observer(chain)
				b.round(o)
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
				chain.mine(tx)
				chain.mine()
				b.round(o)
				require.Equal(t, c.want, *b.row("p").USDCents)
				require.Equal(t, c.basis, b.row("p").ValueBasis)
			})
		}
	}
}

// The price stands still for hours, and so does the quote.
func TestAQuoteHoldsForAsLongAsItIsPublished(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newStandIn(t, 100)
	o := b.observer(chain)
	o.Quoted(50_000, 4200)
	for range 5 {
		b.clock.advance(time.Hour)
		b.round(o)
	}
	chain.setPool(pay("p", single, 50_000))
	b.round(b.observer(chain))
	require.Equal(t, int64(4200), *b.row("p").USDCents)
}

func TestAQuoteHoldsForWhoPaidWhileNobodyLooked(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newStandIn(t, 100)
	o := b.observer(chain)
	o.Quoted(50_000, 4200)
	b.round(o)
	chain.mine(pay("p", single, 50_000)) // ten minutes later
	chain.mineEmpty(100)
	b.clock.advance(17 * time.Hour)
	b.round(b.observer(chain))
	require.Equal(t, int64(4200), *b.row("p").USDCents)
}

func TestAnUnknownValueIsNilUntilThePriceOfTheHourIsKnown(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newStandIn(t, 100)
	b.past = func(time.Time) int64 { return 0 }
	o := b.observer(chain)
	b.round(o)
	chain.mine(pay("p", single, 100_000))
	chain.mineEmpty(30)
	b.round(o)
	require.Nil(t, b.row("p").USDCents, "it is not guessed from the price of now")
	b.requireState("p", ledger.StatusConfirmed)
	chain.mineEmpty(30)
	b.round(o)
	chain.called()
	b.round(o)
	require.Zero(t, count(chain.called(), "/tx"), "the chain is done with it")

	mined := chain.start + 100*600
	b.past = func(at time.Time) int64 {
		require.Equal(t, mined, at.Unix(), "when it was mined, and not when it is looked at")
		return 100_000_000_000
	}
	b.round(o)
	require.Equal(t, int64(10_000), *b.row("p").USDCents)
	require.Equal(t, ledger.BasisRate, b.row("p").ValueBasis)
	require.True(t, b.row("p").Final)
	b.past = func(time.Time) int64 { return 200_000_000_000 }
	b.round(b.observer(chain))
	require.Equal(t, int64(10_000), *b.row("p").USDCents, "fixed once")
}

// The value is that of the hour, whenever the payment is looked at for the first
// time.
func TestTheValueDoesNotDependOnWhenItWasLookedAt(t *testing.T) {
	t.Parallel()
	hourly := func(at time.Time) int64 { return 80_000_000_000 + at.Unix()/3600%1000*7_000_000 }
	values := make(map[int64]bool)
	for _, late := range []time.Duration{0, 20 * time.Minute, 5 * time.Hour, 40 * 24 * time.Hour} {
		b, chain := newBench(t, single), newStandIn(t, 100)
		b.past = hourly
		o := b.observer(chain)
		b.round(o)
		tx := pay("p", single, 100_000)
		if late == 0 {
			chain.setPool(tx)
			b.round(o)
		}
		chain.mine(tx)
		if late == 0 {
			b.round(o)
		}
		chain.mine()
		b.clock.advance(late)
		chain.mineEmpty(int(late / (10 * time.Minute)))
		b.rate.MicroUSD = 50_000_000_000 + int64(late)
		b.round(o)
		values[*b.row("p").USDCents] = true
		require.Equal(t, ledger.BasisRate, b.row("p").ValueBasis)
	}
	require.Len(t, values, 1)
}

// A ledger that was lost does not remember the quotes. Who paid one is known by
// the price that it comes to at the price of the hour.
func TestWhatComesNearThePriceIsThePrice(t *testing.T) {
	t.Parallel()
	for satoshis, want := range map[int64]struct {
		cents int64
		basis ledger.ValueBasis
	}{
		46_667: {4200, ledger.BasisQuote}, 45_733: {4115, ledger.BasisRate}, 45_734: {4200, ledger.BasisQuote}, // 4116 cents are 2 % less
		47_600: {4200, ledger.BasisQuote}, 47_601: {4200, ledger.BasisQuote}, 47_612: {4285, ledger.BasisRate}, // 4284 are 2 % more
		93_334: {8400, ledger.BasisRate}, 100: {9, ledger.BasisRate},
	} {
		b, chain := newBench(t, single), newStandIn(t, 100)
		o := b.observer(chain)
		b.round(o)
		chain.mine(pay("p", single, satoshis))
		chain.mine()
		b.round(o)
		require.Equal(t, want.cents, *b.row("p").USDCents, satoshis)
		require.Equal(t, want.basis, b.row("p").ValueBasis)
	}
}

// A quote that holds an hour is paid while the price moves: a ledger that knows
// the quote and one that does not come to the same.
func TestALostLedgerComesToTheSameValues(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newStandIn(t, 100)
	b.past = func(at time.Time) int64 { return 90_000_000_000 + (at.Unix()/3600%5-2)*700_000_000 } // up to 1.6 % from the quotes
	o := b.observer(chain)
	b.round(o)
	var names []string
	for i := range int64(40) {
		names = append(names, fmt.Sprint("p", i))
		satoshis := 46_667 + i
		if i%4 == 3 {
			satoshis /= 3 // nobody asked for that
		} else {
			o.Quoted(satoshis, 4200)
		}
		b.clock.advance(10*time.Minute - 2*pollEvery)
		b.round(o)
		chain.mine(pay(names[i], single, satoshis))
		b.round(o)
	}
	chain.mineEmpty(30)
	b.round(o)
	before := b.rows(names...)
	require.Len(t, before, 40)

	b.newBook(start.Unix())
	b.rate = rate.Rate{MicroUSD: 123_000_000_000}
	b.clock.advance(100 * 24 * time.Hour)
	b.round(b.observer(chain))
	after := b.rows(names...)
	for _, name := range names {
		require.Equal(t, before[name].USDCents, after[name].USDCents, name)
		require.Equal(t, before[name].ValueBasis, after[name].ValueBasis, name)
		require.True(t, after[name].Final)
	}
}

// What the operator states of a payment is not taken for what a source knows.
func TestAStatedValueGivesWayToThePriceOfTheHour(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newStandIn(t, 100)
	b.past = func(time.Time) int64 { return 0 }
	o := b.observer(chain)
	b.round(o)
	chain.mine(pay("p", single, 100_000))
	chain.mine()
	b.round(o)
	row := b.row("p")
	_, err := b.book.Record(t.Context(), nil, ledger.Sighting{
		Offer: row.Offer, Account: row.Account, Rail: row.Rail, ExternalID: row.ExternalID, Addendum: true,
		EvidenceLevel: ledger.LevelManual, Stated: &ledger.StatedValue{USDCents: 9_500, At: b.clock.Now().Unix()}, Cause: "stated",
	})
	require.NoError(t, err)
	require.Equal(t, ledger.BasisStated, b.row("p").ValueBasis)
	b.round(o)
	require.Equal(t, int64(9_500), *b.row("p").USDCents)
	require.Equal(t, ledger.BasisStated, b.row("p").ValueBasis)
	chain.rewind(2) // and is not found any more
	chain.mineEmpty(3)
	b.round(o)
	require.Equal(t, ledger.BasisStated, b.row("p").ValueBasis)
	chain.mine(pay("p", single, 100_000))
	chain.mineEmpty(20)
	b.past = func(time.Time) int64 { return 100_000_000_000 }
	b.round(o)
	require.Equal(t, int64(10_000), *b.row("p").USDCents)
	require.Equal(t, ledger.BasisRate, b.row("p").ValueBasis)
}

// A round recalls so many receipts. A thousand that wait for their value are no
// reason to take another one for new each time.
func TestManyPaymentsWithoutAValueHideNoOther(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newStandIn(t, 100)
	b.past = func(time.Time) int64 { return 0 }
	o := b.observer(chain)
	b.round(o)
	many := standInTx{name: "many", spends: hashOf("coin") + ":0"}
	for range rowsAtOnce {
		many.pays = append(many.pays, output{scriptOf(single), 1000})
	}
	chain.mine(many)
	chain.mineEmpty(20)
	b.round(o)
	tx := pay("p", single, 100_000)
	chain.setPool(tx)
	b.round(o)
	seen := b.clock.Now().Unix()
	b.round(o)
	row, found, err := b.book.Receipt(t.Context(), testOffer, b.rail.Account(), hashOf("p")+":1")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, seen, row.OccurredAt)
	b.past = func(time.Time) int64 { return 100_000_000_000 }
	chain.mine(tx)
	chain.mineEmpty(20)
	b.round(o)
	b.round(o)
	rows, err := b.book.Unfinal(t.Context(), testOffer, b.rail.Account(), 10)
	require.NoError(t, err)
	require.Empty(t, rows)
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

func TestOnlyAmountsAreQuotes(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newStandIn(t, 100)
	o := b.observer(chain)
	o.Quoted(0, 4200)
	o.Quoted(-1, 4200)
	o.Quoted(1, -1)
	b.round(o)
	for i := range int64(1000) {
		o.Quoted(i+1, 4200)
	}
	b.round(o)
	last, found, err := b.book.Quoted(t.Context(), testOffer, 1000, 0, b.clock.Now().Unix())
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, ledger.Quote{Satoshis: 1000, USDCents: 4200}, last)
}

func TestEvidenceIsSmall(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newStandIn(t, 100)
	o := b.observer(chain)
	b.round(o)
	tx := transaction{ID: hashOf("big"), Outputs: []output{{scriptOf(single), 1}}}
	for range 2000 {
		tx.Inputs = append(tx.Inputs, input{outpoint: outpoint{hashOf("coin"), math.MaxUint32}, Told: true})
	}
	r := &reading{plan: &plan{}, sightings: make(map[string]ledger.Sighting)}
	require.NoError(t, o.sight(t.Context(), r, tx))
	for _, s := range r.sightings {
		require.Less(t, len(s.Evidence), 4<<10)
		require.True(t, json.Valid(s.Evidence))
	}
	require.Len(t, r.sightings, 1)
}
