package bitcoin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

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

func TestMoneyThatMovesWithinTheAccountCountsNowhere(t *testing.T) {
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

			// Its block leaves the chain; it waits, is replaced, and is mined after all.
			chain.rewind(4)
			chain.mineEmpty(5)
			check(ledger.StatusMoved)
			chain.rewind(2)
			chain.bury(2, fakeTx{name: "thief", spends: moved.spends, pays: []output{{strangers, 49_000}}})
			check(ledger.StatusDropped)
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
func TestMovedMoneyStaysMoved(t *testing.T) {
	b, chain, o := observedBeside(t, single)
	chain.mine(fakeTx{name: "p", spends: hashOf("x") + ":0", from: scriptOf(single), pays: []output{{scriptOf(single), 7}}})
	b.becomes(o, "p", ledger.StatusMoved)
	chain.blocks[100].txs[0].from = ""
	chain.mineEmpty(12)
	b.becomes(o, "p", ledger.StatusMoved)
	require.Zero(t, b.sum(ledger.StatusConfirmed))
}
