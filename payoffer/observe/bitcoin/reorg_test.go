package bitcoin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

func TestReorgRevertsPayment(t *testing.T) {
	t.Parallel()
	tx := pay("p", single, 1000)
	for name, c := range map[string]struct {
		then func(chain *fakeIndex, depth int)
		want ledger.Status
	}{
		"back to the mempool": {func(chain *fakeIndex, depth int) { chain.setPool(tx); chain.mineEmpty(depth + 1) }, ledger.StatusSeen},
		"into another block":  {func(chain *fakeIndex, depth int) { chain.mine(); chain.mine(tx); chain.mineEmpty(depth) }, ledger.StatusConfirmed},
		"gone without trace":  {func(chain *fakeIndex, depth int) { chain.mineEmpty(depth + 1) }, ledger.StatusSeen},
	} {
		for _, depth := range []int{1, 2, 6, 3, 4, 5}[:cases.Of(3, 6, 6)] {
			t.Run(fmt.Sprint(name, depth), func(t *testing.T) {
				b, chain, o := observed(t, single)
				chain.bury(depth-1, tx)
				b.round(o)
				chain.rewind(depth)
				c.then(chain, depth)
				b.becomes(o, "p", c.want)
				require.False(t, b.row("p").Final)

				// The chain changes its mind once more, and then makes it up.
				chain.rewind(depth + 1)
				chain.mine(tx)
				block := int64(len(chain.blocks) - 1)
				chain.mineEmpty(depth + 12)
				b.becomes(o, "p", ledger.StatusConfirmed)
				require.True(t, b.row("p").Final)
				require.Equal(t, chain.start+block*600, b.row("p").OccurredAt, "the time of the block that it is in now")
			})
		}
	}
}

func TestReplacedPaymentIsDropped(t *testing.T) {
	b, chain, o := observedBeside(t, single)
	first, second := pay("first", single, 1000), pay("second", single, 900)
	second.spends = first.spends
	chain.setPool(first)
	b.round(o)
	chain.setPool(second)
	b.round(o)
	rows := b.rows("first", "second")
	require.Equal(t, ledger.StatusDropped, rows["first"].Status)
	require.Equal(t, ledger.StatusSeen, rows["second"].Status)
	chain.bury(11, second)
	b.round(o)
	rows = b.rows("first", "second")
	require.Equal(t, ledger.StatusDropped, rows["first"].Status)
	require.Equal(t, ledger.StatusConfirmed, rows["second"].Status)
	chain.called()
	b.round(o)
	require.Zero(t, count(chain.called(), "/tx/"), "nobody asks for it any more")
}

func TestEvictedPaymentDropsAfterOneHour(t *testing.T) {
	b, chain, o := observedBeside(t, single)
	tx := pay("p", single, 1000)
	chain.setPool(tx)
	b.round(o)
	chain.setPool()
	b.round(o)
	b.clock.Pass(evictedAfter - pollEvery)
	b.becomes(o, "p", ledger.StatusSeen)
	b.becomes(o, "p", ledger.StatusDropped)
	require.False(t, b.row("p").Final)

	chain.mineEmpty(500)
	b.round(o)
	chain.setPool(tx)
	b.becomes(o, "p", ledger.StatusSeen)
	chain.bury(1, tx)
	b.becomes(o, "p", ledger.StatusConfirmed)
}

// A payment is first seen in the mempool, and a reorganization puts it into a
// block in the place of one from before the first start.
func TestReceiptBelowOriginIsKept(t *testing.T) {
	b, chain, o := observedBeside(t, single)
	tx := pay("p", single, 1000)
	chain.setPool(tx)
	b.round(o)
	chain.rewind(1)
	chain.bury(3, tx)
	b.becomes(o, "p", ledger.StatusConfirmed)
}

// An endpoint shows a payment from before the first start as one that waits.
func TestPaymentBeforeFirstStartNeverCounts(t *testing.T) {
	t.Parallel()
	for name, account := range map[string]string{"address": single, "extended key": zpub} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, chain := newBench(t, account), newFakeIndex(t, 50)
			tx := pay("p", b.at(0), 100_000)
			chain.bury(30, tx)
			chain.start = start.Unix() - 80*600
			o := b.observer(chain)
			b.round(o)
			require.Empty(t, b.rows())
			chain.setPool(tx)
			b.becomes(o, "p", ledger.StatusSeen)
			chain.setPool()
			for range 3 {
				b.becomes(o, "p", ledger.StatusDropped)
				o = b.observer(chain)
				chain.mine()
			}
			require.True(t, b.row("p").Final)
			chain.setPool(tx)
			b.becomes(o, "p", ledger.StatusDropped)
		})
	}
}

// A block arrives, or leaves, between two calls of one round.
func TestCycleNeedsUnchangedTip(t *testing.T) {
	t.Parallel()
	tx := pay("p", single, 1000)
	for name, change := range map[string]func(chain *fakeIndex){
		"a block more":    func(chain *fakeIndex) { chain.blocks = append(chain.blocks, fakeBlock{hash: hashOf("new")}) },
		"another tip":     func(chain *fakeIndex) { chain.blocks[len(chain.blocks)-1] = fakeBlock{hash: hashOf("new")} },
		"a shorter chain": func(chain *fakeIndex) { chain.blocks = chain.blocks[:len(chain.blocks)-1] },
	} {
		for _, part := range []string{"/block-height/101", "/block/", "/address/" + single, "/txs/chain"} {
			t.Run(name+part, func(t *testing.T) {
				b, chain, o := observed(t, single)
				chain.bury(1, tx)
				changed := false
				chain.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
					if !changed && strings.HasSuffix(r.URL.Path, part) || part == "/block/" && strings.HasPrefix(r.URL.Path, part) && !changed {
						changed = true
						change(chain)
					}
					return false
				})
				b.clock.Pass(pollEvery)
				require.NoError(t, o.Poll(t.Context()))
				require.True(t, changed)
				want := ledger.StatusConfirmed
				if name == "a shorter chain" {
					want = ledger.StatusSeen
				}
				b.requireState("p", want)
			})
		}
	}
}

// Transactions that never confirm cost nothing. They must not keep the
// payments that count from being followed.
func TestUnconfirmedFloodIsBounded(t *testing.T) {
	b, chain, o := observedBeside(t, single)
	for i := range maxUnconfirmed/50 + 5 {
		var flood []fakeTx
		for j := range 50 {
			flood = append(flood, pay(fmt.Sprint("flood", i, " ", j), single, 600))
		}
		chain.setPool(flood...)
		b.round(o)
		if i%3 == 0 {
			b.clock.Pass(2 * time.Hour)
			b.round(o)
		}
	}
	rows, err := b.db.Unfinal(t.Context(), testOffer, b.rail.Account(), 10*rowsAtOnce)
	require.NoError(t, err)
	require.Len(t, rows, maxUnconfirmed)

	tx := pay("p", single, 1000)
	chain.bury(1, tx)
	b.round(o)
	require.Equal(t, ledger.StatusConfirmed, b.receipt("p").Status)
	chain.rewind(2)
	chain.mineEmpty(3)
	b.round(o)
	require.Equal(t, ledger.StatusSeen, b.receipt("p").Status)
}

func TestHostsIgnoreSpelling(t *testing.T) {
	t.Parallel()
	require.Len(t, Hosts([]string{"https://mempool.space/api", "https://MEMPOOL.space/other"}), 1)
	require.Len(t, Hosts([]string{"https://mempool.space/api", "https://blockstream.info/api"}), 2)
}
