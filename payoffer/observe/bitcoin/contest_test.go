package bitcoin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

func TestAThirdHostToleratesOne(t *testing.T) {
	t.Parallel()
	tx := pay("p", single, 1000)
	for name, c := range map[string]struct {
		wrong func(s *fakeIndex)
		code  string
	}{
		"out":      {func(s *fakeIndex) { s.setFault(answer("", 503, "")) }, observe.ErrUnreachable},
		"hides":    {func(s *fakeIndex) { s.inBlock(100) }, ""},
		"invents":  {func(s *fakeIndex) { s.inBlock(101, pay("invented", single, 5000)) }, observe.ErrDisagree},
		"is short": {func(s *fakeIndex) { s.setFault(answer("/txs/chain", 200, "[]")) }, observe.ErrBadAnswer},
		"lags":     {func(s *fakeIndex) { s.rewind(3) }, ""},
		"too high": {func(s *fakeIndex) { s.mineEmpty(12) }, ""},
		"another history": {func(s *fakeIndex) {
			s.rewind(60)
			s.mine(pay("other", strangers, 1))
			s.mineEmpty(59)
		}, observe.ErrDisagree},
	} {
		for at := range 3 {
			t.Run(name, func(t *testing.T) {
				b, n, o := hosted(t, single, 3)
				n.mine(2, tx)
				c.wrong(n[at])
				b.round(o)
				require.Equal(t, c.code, o.Health().LastError)
				require.False(t, o.Health().Partial)
				require.Equal(t, ledger.StatusConfirmed, b.rows("p", "invented")["p"].Status)
				require.Equal(t, "block 102", o.Health().ObservedThrough)
				require.EqualValues(t, 91, b.position().Height)
				require.EqualValues(t, 1000, b.sum(ledger.StatusConfirmed))
			})
		}
	}
}

// A payment counts. What one host says against it changes nothing, and what two say
// does.
func TestACountedPaymentIsTakenBackByTwo(t *testing.T) {
	t.Parallel()
	tx := pay("p", single, 1000)
	thief := fakeTx{name: "thief", spends: tx.spends, pays: []output{{strangers, 1000}}}
	reorganize := func(then func(s *fakeIndex)) func(s *fakeIndex) {
		return func(s *fakeIndex) { s.rewind(3); then(s) }
	}
	for name, c := range map[string]struct {
		changes func(s *fakeIndex)
		want    ledger.Status
	}{
		"waits again":       {reorganize(func(s *fakeIndex) { s.setPool(tx); s.mineEmpty(4) }), ledger.StatusSeen},
		"is gone":           {reorganize(func(s *fakeIndex) { s.mineEmpty(4) }), ledger.StatusSeen},
		"is spent":          {reorganize(func(s *fakeIndex) { s.mine(thief); s.mineEmpty(3) }), ledger.StatusDropped},
		"is hidden":         {func(s *fakeIndex) { s.inBlock(100) }, ledger.StatusSeen},
		"is in the mempool": {func(s *fakeIndex) { s.inBlock(100); s.setPool(tx) }, ledger.StatusSeen},
	} {
		t.Run(name, func(t *testing.T) {
			b, n, o := hosted(t, single, 2)
			n.mine(2, tx)
			b.wholly(o)
			before := b.row("p")
			require.Equal(t, ledger.StatusConfirmed, before.Status)
			c.changes(n[0])
			b.partly(o, observe.ErrDisagree)
			b.clock.Pass(2 * evictedAfter)
			b.partly(o, observe.ErrDisagree)
			require.Equal(t, before, b.row("p"))
			c.changes(n[1])
			b.wholly(o)
			b.requireState("p", c.want)
			require.Zero(t, b.sum(ledger.StatusConfirmed))
		})
	}
}

// Old addresses are not listed again before a block comes, which one host has first:
// the others say nothing then, and that is nothing against the payment.
func TestAHostThatWasNotAskedDeniesNothing(t *testing.T) {
	t.Parallel()
	b, n, o := hosted(t, zpub, 3)
	n.mine(5, pay("p", b.at(0), 1000))
	b.wholly(o)
	b.wholly(o)
	before := b.row("p")
	require.Equal(t, ledger.StatusConfirmed, before.Status)
	require.False(t, before.Final)
	for _, s := range n {
		s.mine()
		b.wholly(o)
		require.Equal(t, before, b.row("p"))
	}
}

func TestAWaitingPaymentIsGivenUpByTwo(t *testing.T) {
	t.Parallel()
	tx := pay("p", single, 1000)
	second := fakeTx{name: "second", spends: tx.spends, pays: []output{{strangers, 1000}}}
	for name, c := range map[string]struct {
		instead []fakeTx
		waits   time.Duration
	}{"evicted": {nil, evictedAfter}, "replaced": {[]fakeTx{second}, 0}} {
		t.Run(name, func(t *testing.T) {
			b, n := newBench(t, single), newNetwork(t, 2, 100)
			o := b.hosts(n...)
			n.setPool(tx)
			b.wholly(o)
			n[0].setPool(c.instead...)
			b.wholly(o)
			b.clock.Pass(c.waits)
			b.wholly(o)
			b.requireState("p", ledger.StatusSeen)
			n[1].setPool(c.instead...)
			b.wholly(o)
			b.clock.Pass(c.waits)
			b.wholly(o)
			b.requireState("p", ledger.StatusDropped)
		})
	}
}

func TestTheOriginIsSetByTwo(t *testing.T) {
	t.Parallel()
	b, n := newBench(t, single), newNetwork(t, 3, 100)
	n.mine(0, pay("old", single, 1000))
	n.mine(20)
	b.newLedger(start.Add(15 * time.Minute).Unix()) // after block 100
	n[0].start += 1000 * 600                        // all its blocks are late
	require.EqualError(t, b.hosts(n[:2]...).Poll(t.Context()), "sources_disagree (a.example, b.example)")
	require.Empty(t, b.account().Origin)
	n[1].setFault(answer("/blocks/1", 503, ""))
	require.EqualError(t, b.hosts(n[0], n[1]).Poll(t.Context()), "unreachable (b.example)")
	require.Empty(t, b.account().Origin, "one answers")
	n[1].setFault(nil)
	b.clock.Pass(maxPause)
	b.round(b.hosts(n...))
	require.Equal(t, "100", b.account().Origin)
	b.rows()

	// Nor is it lowered on one word.
	b.since = start.Add(-time.Hour).Unix()
	o := b.hosts(n[:2]...)
	b.round(o)
	require.True(t, o.Health().Partial)
	require.Equal(t, "100", b.account().Origin)
	n[0].start -= 1000 * 600
	b.wholly(o)
	require.Equal(t, "93", b.account().Origin)
	b.wholly(o)
	require.Equal(t, ledger.StatusConfirmed, b.row("old").Status)
}

// falseCounts says that every address was used once.
func falseCounts(lists bool) func(w http.ResponseWriter, r *http.Request) bool {
	counted := encode(object{"chain_stats": object{"tx_count": 1, "funded_txo_count": 1, "spent_txo_count": 0},
		"mempool_stats": object{"tx_count": 0, "funded_txo_count": 0, "spent_txo_count": 0}})
	return func(w http.ResponseWriter, r *http.Request) bool {
		path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		switch {
		case path[0] != "address":
			return false
		case len(path) == 2:
			return answer("", 200, counted)(w, r)
		case !lists || len(path) > 4 || path[3] == "mempool":
			return answer("", 200, "[]")(w, r)
		}
		tx := (&fakeIndex{blocks: []fakeBlock{{hash: mainGenesis}}}).wire(pay("invented "+path[1], path[1], 1000), 0)
		return answer("", 200, encode([]any{tx}))(w, r)
	}
}

func TestTheAddressAdvancesOnWhatTwoHostsList(t *testing.T) {
	t.Parallel()
	for _, lists := range []bool{false, true} {
		for _, searching := range []bool{false, true} {
			b, n := newBench(t, zpub), newNetwork(t, 2, 100)
			o := b.hosts(n...)
			if !searching {
				b.wholly(o)
			}
			n[0].setFault(falseCounts(lists))
			b.clock.Pass(pollEvery)
			_ = o.Poll(t.Context())
			require.Contains(t, []string{"", b.at(0)}, o.Address())
			n[0].setFault(nil)
			b.clock.Pass(maxPause)
			for range 3 { // it contradicts itself now
				_ = o.Poll(t.Context())
				b.clock.Pass(maxPause)
			}
			b.wholly(o)
			require.Equal(t, b.at(0), o.Address())
			n.mine(0, pay("p", b.at(0), 1000))
			b.wholly(o)
			require.Equal(t, b.at(1), o.Address())
		}
	}
}

// A final block changes. With a second host it takes two to say so.
func TestAFinalBlockThatChangesStopsTheRail(t *testing.T) {
	t.Parallel()
	for hosts := 1; hosts <= 2; hosts++ {
		b, n := newBench(t, single), newNetwork(t, hosts, 100)
		o := b.hosts(n...)
		b.round(o)
		honest := slices.Clone(n[0].blocks)
		for i, s := range n {
			s.rewind(20)
			s.mine(pay("other history", single, 1000))
			s.mineEmpty(30)
			if b.clock.Pass(maxPause); i < hosts-1 {
				b.partly(o, observe.ErrDisagree)
			} else {
				require.ErrorContains(t, o.Poll(t.Context()), "final_history_changed (a.example")
				require.True(t, o.Health().Blind)
			}
			b.rows()
		}
		for _, s := range n {
			s.blocks = honest
		}
		b.clock.Pass(maxPause)
		b.round(o)
	}
}

// Another instance lowers the origin while a cycle is under way, or just before a cursor
// is stored.
func TestACycleDoesNotUndoALoweredOrigin(t *testing.T) {
	t.Parallel()
	for _, account := range []string{single, zpub} {
		for _, c := range []struct{ before, late bool }{{true, false}, {true, true}, {false, true}} {
			t.Run(fmt.Sprint(account[:2], c), func(t *testing.T) {
				t.Parallel()
				b, chain := newBench(t, account), newFakeIndex(t, 100)
				chain.bury(30, pay("old", b.at(0), 1000))
				b.clock.Pass(5 * time.Hour)
				b.newLedger(start.Add(20 * 10 * time.Minute).Unix())
				o := b.observer(chain)
				if c.before {
					b.round(o)
				}
				lower := sync.OnceFunc(func() {
					lowered, err := b.db.LowerOrigin(t.Context(), testOffer, b.rail.Account(), "50")
					require.NoError(t, err)
					require.True(t, lowered)
				})
				if c.late {
					o.config.Ledger = hook{Ledger: b.db, records: lower}
				} else {
					o.config.Ledger = hook{Ledger: b.db, starts: lower}
				}
				b.round(o)
				_, found, err := o.position(t.Context())
				require.NoError(t, err)
				require.False(t, found)
				b.rows()
				b.becomes(o, "old", ledger.StatusConfirmed)
				require.EqualValues(t, 119, b.position().Height)
			})
		}
	}
}
