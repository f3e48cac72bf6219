package bitcoin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// Who has a quote must not be able to choose for weeks, as the price moves, whether he
// pays it: not by a low fee, nor by a smaller payment of the same coin, nor with the help
// of one host. And no host can take the quote of the day from a payer.
func TestAQuoteIsNotAnOption(t *testing.T) {
	t.Parallel()
	const quoted = 50_000
	spend := func(name string, satoshis int64) fakeTx {
		tx := pay(name, single, satoshis)
		tx.spends = hashOf("coin") + ":0"
		return tx
	}
	real := spend("real", quoted)
	early := func(tx fakeTx, indexes ...int) func(network) {
		return func(n network) {
			for _, i := range indexes {
				n[i].setPool(tx)
			}
		}
	}
	for name, c := range map[string]struct {
		first   func(network)
		goes    bool // from the mempools again
		waits   time.Duration
		another time.Duration // how late the same amount is quoted again
		want    int64
		basis   ledger.ValueBasis
	}{
		"mined in a day":                            {early(real, 0, 1), false, 20 * time.Hour, 0, 4200, ledger.BasisQuote},
		"mined in a day, and gone meanwhile":        {early(real, 0, 1), true, 20 * time.Hour, 0, 4200, ledger.BasisQuote},
		"with a fee that is too low":                {early(real, 0, 1), false, 30 * time.Hour, 0, 2000, ledger.BasisRate},
		"pushed out of the mempools":                {early(real, 0, 1), true, 10 * 24 * time.Hour, 0, 2000, ledger.BasisRate},
		"shown by one host, once":                   {early(real, 0), true, 20 * time.Hour, 0, 2000, ledger.BasisRate},
		"shown by one host":                         {early(real, 0), false, 20 * time.Hour, 0, 2000, ledger.BasisRate},
		"after one that one host invents":           {early(spend("fake", quoted), 0), false, 20 * time.Hour, 0, 2000, ledger.BasisRate},
		"of today, after one that one host invents": {early(spend("fake", quoted), 0), false, 20 * time.Hour, 20 * time.Hour, 4200, ledger.BasisQuote},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, n := newBench(t, single), newNetwork(t, 2, 100)
			b.rate.MicroUSD = 0 // nothing else is published
			o := b.hosts(n...)
			b.round(o)
			o.Quoted(quoted, 4200)
			b.round(o)
			c.first(n)
			b.round(o)
			for left := c.waits; left > 0; left -= min(left, 2*time.Hour) {
				if c.goes {
					n.setPool()
				}
				b.clock.advance(min(left, 2*time.Hour) - pollEvery)
				n.mine(int(min(left, 2*time.Hour)/(10*time.Minute)) - 1)
				if c.another > 0 && left <= 2*time.Hour {
					require.NoError(t, b.db.StoreQuote(t.Context(), testOffer, quoted, 4200, b.clock.Now().Unix()))
				}
				b.round(o)
			}
			n.setPool(real)
			b.round(o)
			b.rate.MicroUSD = 40_000_000_000
			n.mine(0, real)
			b.round(o)
			n.mine(20)
			b.clock.advance(200 * time.Minute)
			b.round(o)
			row := b.receipt("real")
			require.Equal(t, ledger.StatusConfirmed, row.Status)
			cents := int64(-1)
			if row.USDCents != nil {
				cents = *row.USDCents
			}
			require.Equal(t, c.want, cents)
			require.Equal(t, c.basis, row.ValueBasis)
		})
	}
}

// What one host alone shows has no value yet.
func TestOneHostAloneFixesNoValue(t *testing.T) {
	t.Parallel()
	b, n, o := hosted(t, single, 2)
	o.Quoted(50_000, 4200)
	b.wholly(o)
	n[0].setPool(pay("p", single, 50_000))
	b.wholly(o)
	require.Nil(t, b.row("p").USDCents)
	n[1].setPool(pay("p", single, 50_000))
	b.wholly(o)
	require.EqualValues(t, 4200, *b.row("p").USDCents)
	n[0].setPool()
	b.wholly(o)
	require.EqualValues(t, 4200, *b.row("p").USDCents, "one that forgets it takes nothing away")
}
