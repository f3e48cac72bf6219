package bitcoin

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestAPaymentCountsOnceItIsConfirmed(t *testing.T) {
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
func TestADowntimeIsCaughtUp(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newFakeIndex(t, 100)
	b.round(b.observer(chain))
	var names []string
	for i := range 60 {
		names = append(names, "p"+string(rune('0'+i)))
		chain.mine(pay(names[i], single, int64(1000+i)))
	}
	chain.mine()
	b.clock.advance(10 * time.Hour)
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

func TestTheMempoolIsSeenAndNeverCounted(t *testing.T) {
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

func TestEveryOutputIsAPaymentByItsScript(t *testing.T) {
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

func TestConfigurationMistakesAreRefused(t *testing.T) {
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
