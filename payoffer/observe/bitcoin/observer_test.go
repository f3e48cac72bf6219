package bitcoin

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

func TestPaymentCountsAfterConfirmation(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newFakeIndex(t, 100)
	o := b.observer(chain)
	require.True(t, o.Health().Blind)
	require.Equal(t, single, o.Address())
	b.round(o)
	require.Equal(t, observe.Health{Rail: "btc", Source: "chain", Partial: true, ObservedThrough: "block 99", At: b.clock.Now().Unix()}, o.Health())

	tx := pay("p", single, 46_667)
	chain.setPool(tx)
	b.round(o)
	row := b.row("p")
	require.Equal(t, ledger.StatusSeen, row.Status)
	require.Equal(t, hashOf("p")+":1", row.ExternalID, "the output that pays us")
	require.Equal(t, "BTC", row.Asset)
	require.Equal(t, int64(46_667), row.Amount)
	require.Nil(t, row.USDCents, "it was not quoted, and may never be mined")
	seen := b.clock.Now().Unix()
	require.Equal(t, seen, row.OccurredAt)
	require.Equal(t, ledger.LevelChain, row.EvidenceLevel)
	require.False(t, row.Own || row.Testnet || row.Final)

	chain.mine(tx)
	b.becomes(o, "p", ledger.StatusSeen)
	require.Equal(t, chain.start+100*600, b.row("p").OccurredAt, "the time of its block")
	chain.mine()
	b.becomes(o, "p", ledger.StatusConfirmed)
	require.Equal(t, int64(4200), *b.row("p").USDCents, "46,667 satoshis at 90,000 USD are 42.0003 USD")
	var proof evidence
	require.NoError(t, json.Unmarshal(b.row("p").Evidence, &proof))
	require.Equal(t, evidence{Address: single, Block: 100, BlockHash: chain.blocks[100].hash, Inputs: []string{tx.spends}, First: seen, MicroUSD: 90_000_000_000}, proof)
	chain.mineEmpty(9)
	b.round(o)
	require.False(t, b.row("p").Final, "11 blocks deep")
	chain.mine()
	b.round(o)
	require.True(t, b.row("p").Final, "12 blocks deep")
	require.Equal(t, int64(2), b.row("p").Version, "seen and confirmed were announced, each once")
}

// What arrived while nobody looked, for longer than a reorganization can
// reach, is found, however much it is.
func TestObserverCatchesUpAfterDowntime(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newFakeIndex(t, 100)
	b.round(b.observer(chain))
	var names []string
	for i := range 60 {
		names = append(names, "p"+string(rune('0'+i)))
		chain.mine(pay(names[i], single, int64(1000+i)))
	}
	chain.mine()
	b.clock.Pass(10 * time.Hour)
	o := b.observer(chain)
	b.round(o)
	rows := b.rows(names...)
	require.Len(t, rows, 60)
	for i, name := range names {
		require.Equal(t, ledger.StatusConfirmed, rows[name].Status)
		require.Equal(t, int64(1000+i), rows[name].Amount)
		require.Equal(t, i < 50, rows[name].Final)
		if i > 0 {
			require.Less(t, rows[names[i-1]].ID, rows[name].ID, "in the order of payment")
		}
	}
	chain.called()
	chain.mine()
	b.round(o)
	require.Equal(t, 1, count(chain.called(), "/txs/chain"), "what was read is not read again")
}

func TestMempoolPaymentsNeverCount(t *testing.T) {
	b, chain, o := observedBeside(t, single)
	var pool []fakeTx
	var names []string
	for i := range 70 {
		names = append(names, "p"+string(rune('0'+i)))
		pool = append(pool, pay(names[i], single, 1000))
	}
	chain.setPool(pool[:40]...)
	b.round(o)
	chain.setPool(pool...)
	chain.bury(1, pool[0])
	b.round(o)
	b.round(o)
	rows := b.rows(names...)
	require.Len(t, rows, 70, "40 were read before there were more than a list holds")
	for _, name := range names[1:] {
		require.Equal(t, ledger.StatusSeen, rows[name].Status)
	}
	require.Equal(t, ledger.StatusConfirmed, rows[names[0]].Status)
}

func TestOutputsMatchByScript(t *testing.T) {
	b, chain, o := observedBeside(t, single)
	ours, other := scriptOf(single), strangers
	chain.mine(
		fakeTx{name: "two", spends: hashOf("x") + ":7", pays: []output{{ours, 10}, {other, 20}, {ours, 30}}},
		fakeTx{name: "change", spends: hashOf("two") + ":0", from: ours, pays: []output{{other, 5}, {ours, 4}}},
		fakeTx{name: "sweep", spends: hashOf("two") + ":2", from: ours, pays: []output{{other, 29}}},
	)
	b.round(o)
	receipts, err := b.db.Receipts(t.Context(), testOffer, 0, 10)
	require.NoError(t, err)
	got := make(map[string]int64)
	for _, r := range receipts {
		got[r.ExternalID] = r.Amount
		require.Equal(t, r.Transaction == hashOf("change"), r.Own, "change is the operator's own money")
	}
	require.Equal(t, map[string]int64{hashOf("two") + ":0": 10, hashOf("two") + ":2": 30, hashOf("change") + ":1": 4}, got)
}

func TestNewRefusesInvalidConfig(t *testing.T) {
	t.Parallel()
	rail, err := offer.NewBitcoin(single, "", 4200)
	require.NoError(t, err)
	for name, c := range map[string]Config{
		"no endpoint":      {Confirmations: 2},
		"no confirmation":  {Endpoints: []string{"https://e.example/api"}},
		"plain http":       {Endpoints: []string{"http://e.example/api"}, Confirmations: 2},
		"no absolute URL":  {Endpoints: []string{"e.example"}, Confirmations: 2},
		"user information": {Endpoints: []string{"https://u:p@e.example"}, Confirmations: 2},
	} {
		c.Rail = rail
		_, err := New(c)
		require.Error(t, err, name)
	}
}

// count is how many of the paths hold a part.
func count(paths []string, part string) (n int) {
	for _, path := range paths {
		if strings.Contains(path, part) {
			n++
		}
	}
	return n
}

func TestPaymentHasQuotedValue(t *testing.T) {
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
		"a satoshi less":          {49_999, time.Minute, false, 4199, ledger.BasisQuote},
		"one percent less":        {49_500, time.Minute, false, 4158, ledger.BasisQuote},
		"more than one percent":   {49_499, time.Minute, false, 3464, ledger.BasisRate},
		"one percent of both":     {59_400, time.Minute, true, 4989, ledger.BasisQuote},
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
				b.clock.Pass(c.after - pollEvery - pollEvery)
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

func TestQuoteHoldsDuringDowntime(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newFakeIndex(t, 100)
	o := b.observer(chain)
	o.Quoted(50_000, 4200)
	b.round(o)
	chain.mine(pay("p", single, 50_000)) // ten minutes later
	chain.mineEmpty(100)
	b.clock.Pass(17 * time.Hour)
	b.round(b.observer(chain))
	require.Equal(t, int64(4200), *b.row("p").USDCents)
}

// A payment without a quote is worth the price at the time of its block, however late it
// counts.
func TestValueUsesRateAtBlockTime(t *testing.T) {
	b, chain, o := observedBeside(t, single)
	tx := pay("p", single, 100_000)
	chain.setPool(tx)
	b.round(o)
	require.Nil(t, b.row("p").USDCents, "the payer can still withdraw it")
	b.clock.Pass(3 * time.Hour)
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
func TestOldPaymentHasNoValue(t *testing.T) {
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
			b.clock.Pass(start.Add(10*time.Minute + late - pollEvery).Sub(b.clock.Now()))
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
func TestRateReplacesStatedValue(t *testing.T) {
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

func TestScaleRoundsDown(t *testing.T) {
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
