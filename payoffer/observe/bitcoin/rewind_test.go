package bitcoin

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// stand stores a position, as an index that lied left it behind.
func (b *bench) stand(height int, index string, anchor string) {
	b.Helper()
	_, err := b.book.Record(b.Context(), &ledger.Cursor{
		Offer: testOffer, Account: b.rail.Account(), Position: fmt.Sprintf(`{"height":%d%s}`, height, index), Anchor: anchor,
	})
	require.NoError(b, err)
}

func (b *bench) rewind() {
	b.Helper()
	rewound, err := b.book.Rewind(b.Context(), testOffer, b.rail.Account())
	require.NoError(b, err)
	require.True(b, rewound)
}

func TestARewoundRailIsReadFromItsOriginOnAndCountsNothingTwice(t *testing.T) {
	t.Parallel()
	for _, account := range []string{single, zpub} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprint(account[:4], restarted), func(t *testing.T) {
				t.Parallel()
				b, chain := newBench(t, account), newStandIn(t, 100)
				o := b.observer(chain)
				b.round(o)
				chain.mine(pay("known", b.at(0), 10_000))
				chain.mine()
				b.round(o)
				chain.mine(pay("lost", b.at(0), 20_000))
				chain.mineEmpty(30)
				index := ""
				if b.rail.Extended() {
					index = `,"index":1`
				}
				b.stand(125, index, chain.blocks[125].hash) // above what was never read
				if !b.rail.Extended() {
					b.round(o)
					require.Len(t, b.rows("known", "lost"), 1)
				}
				for range 2 { // what is read again changes nothing
					if b.rewind(); restarted {
						o = b.observer(chain)
					}
					b.round(o)
					b.round(o)
					require.Len(t, b.rows("known", "lost"), 2)
					require.EqualValues(t, 30_000, b.sum(ledger.StatusConfirmed))
				}
				versions := b.rows("known", "lost")
				b.rewind()
				b.round(o)
				require.Equal(t, versions, b.rows("known", "lost"))
			})
		}
	}
}

// A height that was never reached, and a block that was never there, stop a rail
// until it is rewound.
func TestARewoundRailGoesOnAfterAFalseHeight(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]int{"above the chain": 150, "a block that is none": 90} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, chain := newBench(t, single), newStandIn(t, 100)
			o := b.observer(chain)
			b.round(o)
			chain.mine(pay("paid", single, 10_000))
			chain.mine()
			b.round(o)
			b.stand(at, "", hashOf("no block"))
			require.Error(t, o.Round(t.Context()))
			b.clock.advance(maxPause)
			require.Error(t, o.Round(t.Context()))
			b.rewind()
			b.clock.advance(maxPause)
			b.round(o)
			require.EqualValues(t, 10_000, b.sum(ledger.StatusConfirmed))
		})
	}
}

func TestARewoundKeyGoesBackToTheAddressAfterTheLastUsedOne(t *testing.T) {
	t.Parallel()
	for _, used := range []uint32{0, 30} { // 30 was published by mistake, and paid to
		t.Run(fmt.Sprint(used), func(t *testing.T) {
			t.Parallel()
			b, chain := newBench(t, zpub), newStandIn(t, 100)
			o := b.observer(chain)
			b.round(o)
			chain.mine(pay("first", b.at(0), 10_000))
			chain.mine()
			b.round(o)
			require.Equal(t, b.at(1), o.Address())
			b.stand(91, `,"index":60`, chain.blocks[91].hash)
			b.round(o)
			require.Equal(t, b.at(60), o.Address())
			if used > 0 {
				chain.mine(pay("far", b.at(used), 10_000))
			}
			b.rewind()
			b.round(o)
			require.Equal(t, b.at(used+1), o.Address())
			position, found, err := o.position(t.Context())
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, used+1, *position.Index)
		})
	}
}

// After a restart the addresses that were published by mistake are not derived any
// more. A payment to one that is under way is not taken for gone.
func TestAPaymentFarAheadIsNotTakenForGone(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, zpub), newStandIn(t, 100)
	o := b.observer(chain)
	b.round(o)
	b.stand(88, `,"index":60`, chain.blocks[88].hash)
	b.round(o)
	tx := pay("far", b.at(60), 10_000)
	chain.setPool(tx)
	b.round(o)
	b.requireState("far", ledger.StatusSeen)
	b.stand(88, `,"index":1`, chain.blocks[88].hash)
	chain.setPool()
	chain.mine(tx)
	chain.mine()
	o = b.observer(chain)
	for range 3 {
		b.round(o)
		b.requireState("far", ledger.StatusSeen)
	}
}
