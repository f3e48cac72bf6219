package bitcoin

import (
	"context"
	"encoding/json"
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
	}{
		"exactly, in time":        {50_000, 59 * time.Minute, false, 4200},
		"after a restart":         {50_000, 59 * time.Minute, true, 4200},
		"too late":                {50_000, 61 * time.Minute, false, 5000},
		"too late, after restart": {50_000, 61 * time.Minute, true, 5000},
		"a satoshi less":          {49_999, time.Minute, false, 4999},
		"a satoshi more":          {50_001, time.Minute, false, 5000},
	} {
		t.Run(name, func(t *testing.T) {
			b, chain := newBench(t, single), newStandIn(t, 100)
			o := b.observer(chain)
			b.round(o)
			o.Quoted(50_000, 4200)
			b.rate = rate.Rate{} // the quote is not published any more
			b.round(o)
			b.clock.advance(c.after - pollEvery - pollEvery)
			b.rate = rate.Rate{MicroUSD: 100_000_000_000}
			if c.restart {
				o = b.observer(chain)
			}
			o.Quoted(42_000, 4200)
			chain.setPool(pay("p", single, c.paid))
			b.round(o)
			require.Equal(t, c.want, *b.row("p").USDCents)
		})
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

func TestAnUnknownValueIsNilUntilThereIsARate(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newStandIn(t, 100)
	b.rate = rate.Rate{}
	o := b.observer(chain)
	b.round(o)
	chain.mine(pay("p", single, 100_000))
	chain.mineEmpty(30)
	b.round(o)
	require.Nil(t, b.row("p").USDCents)
	b.requireState("p", ledger.StatusConfirmed)
	chain.mineEmpty(30)
	b.round(o)
	b.rate = rate.Rate{MicroUSD: 100_000_000_000}
	b.round(o)
	require.Equal(t, int64(10_000), *b.row("p").USDCents)
	require.True(t, b.row("p").Final)
	b.rate = rate.Rate{MicroUSD: 200_000_000_000}
	b.round(o)
	require.Equal(t, int64(10_000), *b.row("p").USDCents, "fixed at first sight")
}

func TestWorthIsRoundedDown(t *testing.T) {
	t.Parallel()
	// Computed with exact fractions outside of this project.
	for _, c := range []struct{ satoshis, microUSD, want int64 }{
		{46_667, 90_000_000_000, 4200}, {46_666, 90_000_000_000, 4199}, {1, 90_000_000_000, 0},
		{0, 90_000_000_000, 0}, {maxSatoshis, 100_000_000_000_000, 210_000_000_000_000_000},
	} {
		require.Equal(t, c.want, *worth(c.satoshis, c.microUSD))
	}
	require.Nil(t, worth(maxSatoshis, math.MaxInt64), "more than the ledger can hold")
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
	_, found, err := b.book.Quoted(t.Context(), testOffer, 1000, 0, b.clock.Now().Unix())
	require.NoError(t, err)
	require.True(t, found)
}

func TestEvidenceIsSmall(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newStandIn(t, 100)
	o := b.observer(chain)
	b.round(o)
	tx := transaction{ID: hashOf("big"), Outputs: []output{{scriptOf(single), 1}}}
	for range 2000 {
		tx.Inputs = append(tx.Inputs, input{outpoint: outpoint{hashOf("coin"), math.MaxUint32}})
	}
	r := &reading{endpoint: o.endpoints[0], sightings: make(map[string]ledger.Sighting)}
	require.NoError(t, o.sight(t.Context(), r, tx))
	for _, s := range r.sightings {
		require.Less(t, len(s.Evidence), 4<<10)
		require.True(t, json.Valid(s.Evidence))
	}
	require.Len(t, r.sightings, 1)
}
