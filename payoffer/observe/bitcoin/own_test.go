package bitcoin

import (
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// change is the output script at an index of the internal chain.
func (b *bench) change(index uint32) string {
	b.Helper()
	script, err := b.rail.ChangeScript(index)
	require.NoError(b, err)
	return hex.EncodeToString(script)
}

// former registers an account that the offer had before, and is its rail.
func (b *bench) former(account string) *offer.Bitcoin {
	b.Helper()
	rail, err := offer.NewBitcoin(account, "Shop", 4200)
	require.NoError(b, err)
	require.NoError(b, b.db.Register(b.Context(), ledger.Account{Offer: testOffer, ID: rail.Account(), Rail: rail.Name(), Since: start.Unix()}))
	return rail
}

func TestOwnWalletTransferIsNotPayment(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		account string
		spend   func(b *bench, tx *fakeTx)
		own     bool
	}{
		"first change address":    {zpub, func(b *bench, tx *fakeTx) { tx.from = b.change(0) }, true},
		"change beyond the gap":   {zpub, func(b *bench, tx *fakeTx) { tx.from = b.change(gapLimit + 5) }, true},
		"change far ahead":        {zpub, func(b *bench, tx *fakeTx) { tx.from = b.change(changeAhead - 1) }, true},
		"a receiving address":     {zpub, func(b *bench, tx *fakeTx) { tx.from = scriptOf(b.at(0)) }, true},
		"one not published yet":   {zpub, func(b *bench, tx *fakeTx) { tx.from = scriptOf(b.at(gapLimit)) }, true},
		"a later input":           {zpub, func(b *bench, tx *fakeTx) { tx.from, tx.also = strangers, []string{strangers, b.change(3)} }, true},
		"a later one of a single": {single, func(b *bench, tx *fakeTx) { tx.from, tx.also = strangers, []string{strangers, scriptOf(single)} }, true},
		"the address itself":      {single, func(b *bench, tx *fakeTx) { tx.from = scriptOf(single) }, true},
		"the wallet of before": {zpub, func(b *bench, tx *fakeTx) {
			b.former(single)
			tx.from = scriptOf(single)
		}, true},
		"change of the wallet of before": {single, func(b *bench, tx *fakeTx) {
			former := &bench{TB: b, rail: b.former(zpub)}
			tx.from = former.change(7)
		}, true},
		"a stranger": {zpub, func(b *bench, tx *fakeTx) { tx.from, tx.also = strangers, []string{strangers} }, false},
		"new coins":  {single, func(b *bench, tx *fakeTx) { tx.spends = coinbaseID + ":0" }, false},
		"what another offer owns": {zpub, func(b *bench, tx *fakeTx) {
			rail, err := offer.NewBitcoin(single, "", 1)
			require.NoError(b, err)
			require.NoError(b, b.db.Register(b.Context(), ledger.Account{Offer: "other", ID: rail.Account(), Rail: "btc"}))
			tx.from = scriptOf(single)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, chain := newBench(t, test.account), newFakeIndex(t, 100)
			tx := fakeTx{name: "tx", spends: hashOf("y") + ":0", pays: []output{{strangers, 5}, {scriptOf(b.at(0)), 48_000}}}
			test.spend(b, &tx)
			o := b.observer(chain)
			b.round(o)
			chain.bury(1, tx)
			b.round(o)
			row := b.row("tx")
			require.Equal(t, test.own, row.Own)
			if test.own {
				require.Equal(t, ledger.StatusMoved, row.Status)
				require.Zero(t, b.sum(ledger.StatusConfirmed))
			} else {
				require.EqualValues(t, 48_000, b.sum(ledger.StatusConfirmed))
			}
		})
	}
}

// An address may be one of a key, too: what is paid there is one payment, whichever
// of the two is configured.
func TestOutputIsOnePaymentPerOffer(t *testing.T) {
	t.Parallel()
	for _, keyFirst := range []bool{true, false} {
		t.Run(fmt.Sprint(keyFirst), func(t *testing.T) {
			b, chain := newBench(t, zpub), newFakeIndex(t, 100)
			both := []*offer.Bitcoin{b.rail, b.former(b.at(0))}
			key := b.observer(chain)
			b.rail = both[1]
			address := b.observer(chain)
			order := []*Observer{key, address}
			if !keyFirst {
				order = []*Observer{address, key}
			}
			for _, o := range order {
				b.round(o)
			}
			b.rail = both[0]
			tx := pay("tx", b.at(0), 48_000)
			chain.setPool(tx)
			for _, o := range order {
				b.round(o)
			}
			b.requireState("tx", ledger.StatusSeen)
			chain.setPool()
			chain.bury(1, tx)
			for _, o := range order {
				b.round(o)
			}
			b.requireState("tx", ledger.StatusConfirmed)
			require.EqualValues(t, 48_000, b.sum(ledger.StatusConfirmed))
			require.Equal(t, b.at(1), key.Address(), "it was used, whoever has the payment")
		})
	}
}

// sum is what stands in the sums of a status, in satoshis.
func (b *bench) sum(status ledger.Status) (satoshis int64) {
	b.Helper()
	totals, err := b.db.Totals(b.Context(), testOffer)
	require.NoError(b, err)
	for _, total := range totals {
		if total.Status == status {
			satoshis += total.Amount
		}
	}
	return satoshis
}

func TestInternalTransferDoesNotCount(t *testing.T) {
	t.Parallel()
	for _, account := range []string{single, zpub} {
		t.Run(account[:2], func(t *testing.T) {
			b, chain, o := observed(t, account)
			paid := pay("paid", b.at(0), 50_000)
			chain.bury(1, paid)
			b.round(o)
			require.EqualValues(t, 50_000, b.sum(ledger.StatusConfirmed))

			moved := fakeTx{name: "moved", spends: hashOf("paid") + ":1", from: scriptOf(b.at(0)), pays: []output{{strangers, 9}, {scriptOf(b.at(0)), 49_000}}}
			check := func(status ledger.Status) { // after a round
				t.Helper()
				b.round(o)
				row := b.rows("paid", "moved")["moved"]
				require.Equal(t, status, row.Status)
				require.True(t, row.Own)
				require.Nil(t, row.USDCents)
				require.EqualValues(t, 50_000, b.sum(ledger.StatusConfirmed))
				require.Zero(t, b.sum(ledger.StatusSeen))
			}
			chain.setPool(moved)
			check(ledger.StatusMoved)
			chain.mine(moved)
			check(ledger.StatusMoved)
			chain.mineEmpty(3)
			check(ledger.StatusMoved)

			// Its block leaves the chain; it waits, and is mined after all.
			chain.rewind(4)
			chain.mineEmpty(5)
			check(ledger.StatusMoved)
			chain.rewind(3)
			chain.bury(3, moved)
			check(ledger.StatusMoved)
			chain.mineEmpty(12)
			check(ledger.StatusMoved)
			require.True(t, b.rows("paid", "moved")["moved"].Final)
			chain.called()
			b.round(o)
			require.Zero(t, count(chain.called(), "/tx/"), "nobody asks for it any more")
		})
	}
}

// An endpoint that does not tell what a transaction spends makes no payment of
// what was known to be moved.
func TestMovedStatusIsKept(t *testing.T) {
	b, chain, o := observedBeside(t, single)
	chain.mine(fakeTx{name: "p", spends: hashOf("x") + ":0", from: scriptOf(single), pays: []output{{scriptOf(single), 7}}})
	b.becomes(o, "p", ledger.StatusMoved)
	chain.blocks[100].txs[0].from = ""
	chain.mineEmpty(12)
	b.becomes(o, "p", ledger.StatusMoved)
	require.Zero(t, b.sum(ledger.StatusConfirmed))
}

// Who has a quote must not be able to choose for weeks, as the price moves, whether he
// pays it: not by a low fee, nor by a smaller payment of the same coin, nor with the help
// of one host. And no host can take the quote of the day from a payer.
func TestQuoteCannotBeUsedAsOption(t *testing.T) {
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
				b.clock.Pass(min(left, 2*time.Hour) - pollEvery)
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
			b.clock.Pass(200 * time.Minute)
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

// A payment that only one host shows has no value yet.
func TestValueNeedsTwoHosts(t *testing.T) {
	t.Parallel()
	b, n, o := hosted(t, single, 2)
	o.Quoted(50_000, 4200)
	b.wholly(o)
	n[0].setPool(pay("p", single, 50_000))
	for range 3 { // the other one is asked from the second time on, and does not know it
		b.wholly(o)
		require.Nil(t, b.row("p").USDCents)
	}
	n[1].setPool(pay("p", single, 50_000))
	b.wholly(o)
	require.EqualValues(t, 4200, *b.row("p").USDCents)
	n[0].setPool()
	b.wholly(o)
	require.EqualValues(t, 4200, *b.row("p").USDCents, "one that forgets it takes nothing away")
}
