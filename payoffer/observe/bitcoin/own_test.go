package bitcoin

import (
	"encoding/hex"
	"fmt"
	"testing"

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

func TestMoneyOfTheWalletItselfIsNotAPayment(t *testing.T) {
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
		"an input not response":   {single, func(b *bench, tx *fakeTx) { tx.spends, tx.mute = hashOf("coin")+":1", true }, true},
		"the second not response": {single, func(b *bench, tx *fakeTx) { tx.spends, tx.also, tx.mute = hashOf("coin")+":0", []string{""}, true }, true},
		"a change not response":   {zpub, func(b *bench, tx *fakeTx) { tx.spends, tx.mute = hashOf("coin")+":2", true }, true},
		"the wallet of before": {zpub, func(b *bench, tx *fakeTx) {
			b.former(single)
			tx.from = scriptOf(single)
		}, true},
		"change of the wallet of before": {single, func(b *bench, tx *fakeTx) {
			former := &bench{TB: b, rail: b.former(zpub)}
			tx.from = former.change(7)
		}, true},
		"a stranger":               {zpub, func(b *bench, tx *fakeTx) { tx.from, tx.also = strangers, []string{strangers} }, false},
		"a stranger, not response": {single, func(b *bench, tx *fakeTx) { tx.spends, tx.mute = hashOf("coin")+":0", true }, false},
		"new coins":                {single, func(b *bench, tx *fakeTx) { tx.spends, tx.mute = nothing+":0", true }, false},
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
			kept := []output{{strangers, 5}, {scriptOf(single), 7}}
			if b.rail.Extended() {
				kept = append(kept, output{b.change(1), 9})
			}
			chain.mine(fakeTx{name: "coin", spends: hashOf("x") + ":0", from: strangers, pays: kept})
			b.newLedger(start.Unix() + 3600)
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
func TestOneOutputIsOnePaymentOfAnOffer(t *testing.T) {
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
