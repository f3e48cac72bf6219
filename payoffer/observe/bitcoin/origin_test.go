package bitcoin

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

func TestOriginCountsPaymentsSinceStart(t *testing.T) {
	t.Parallel()
	for _, blocks := range []int{1, 6, 11, 60} {
		for _, account := range []string{single, zpub} {
			t.Run(fmt.Sprint(blocks, account[:2]), func(t *testing.T) {
				b, chain := newBench(t, account), newFakeIndex(t, 100)
				before := pay("before", b.at(0), 1000)
				chain.inBlock(92, before) // more than an hour before the start
				o := b.observer(chain)
				chain.setFault(answer("/", 503, ""))
				require.Error(t, o.Poll(t.Context()))
				require.True(t, o.Health().Blind, "nothing is known, not even that it is nothing")

				names := []string{"first", "last"}
				chain.bury(blocks-1, pay("first", b.at(0), 1000))
				chain.bury(1, pay("last", b.at(0), 1000))
				chain.blocks[100].late = -60 * 60 // its miner's clock is behind, that of the next one too far
				chain.mine(pay("by its time before the start", b.at(0), 1000))
				chain.blocks[len(chain.blocks)-1].late = -20 * 3600
				b.clock.Pass(time.Duration(blocks+2) * 10 * time.Minute)
				chain.setFault(nil)
				b.round(b.observer(chain)) // it may be another process, too
				rows := b.rows(names...)
				require.Len(t, rows, 2)
				for _, name := range names {
					require.Equal(t, ledger.StatusConfirmed, rows[name].Status)
				}
				require.Equal(t, fmt.Sprint(start.Add(-slowClock).Unix()), b.account().Origin)
			})
		}
	}
}

func TestOriginUsesClockOffset(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, 2 * time.Hour, -2 * time.Hour} {
		b, chain := newBench(t, single), newFakeIndex(t, 100)
		b.ahead = ahead
		b.round(b.observer(chain))
		require.Equal(t, fmt.Sprint(start.Add(-max(0, ahead)-slowClock).Unix()), b.account().Origin)
	}
}

// causes are those of the transitions, by the name of the payment.
func (b *bench) causes(names ...string) map[string][]string {
	b.Helper()
	rows := b.rows(names...)
	all, err := b.db.Transitions(b.Context(), testOffer, 0, 1000)
	require.NoError(b, err)
	causes := make(map[string][]string)
	for name, row := range rows {
		for _, tr := range all {
			if tr.ExternalID == row.ExternalID {
				causes[name] = append(causes[name], tr.Cause)
			}
		}
	}
	return causes
}

func (b *bench) account() ledger.Account {
	b.Helper()
	account, err := b.db.Account(b.Context(), testOffer, b.rail.Account())
	require.NoError(b, err)
	return account
}

func TestLowerOriginRereadsOnce(t *testing.T) {
	t.Parallel()
	for _, account := range []string{single, zpub} {
		t.Run(account[:2], func(t *testing.T) {
			b, chain := newBench(t, account), newFakeIndex(t, 100)
			chain.mineEmpty(12)
			chain.mine(pay("too old", b.at(0), 1000))
			chain.mine(pay("old", b.at(0), 1000))
			for i := range uint32(40) { // more than are read each round
				chain.mine(pay(fmt.Sprint("old", i), b.at(i), 1000))
			}
			chain.mineEmpty(15)
			tip := start.Add(70 * 10 * time.Minute)
			b.clock.Pass(70 * 10 * time.Minute)
			b.newLedger(tip.Unix())
			o := b.hosts(chain, chain)
			for range 3 {
				b.round(o)
			}
			published := o.Address()
			chain.mine(pay("new", b.at(0), 1000))
			chain.mine(pay("lost", b.at(1), 1000))
			lost := chain.blocks[len(chain.blocks)-1].txs
			chain.blocks[len(chain.blocks)-1].txs = nil
			chain.mineEmpty(20)
			for range 3 {
				b.round(o)
			}
			b.rows("new")
			require.False(t, o.Health().Partial)
			chain.inBlock(len(chain.blocks)-21, lost...)

			b.since = start.Add(14 * 10 * time.Minute).Unix() // the time of the block of "old"
			origin := fmt.Sprint(b.since)
			o = b.hosts(chain, chain) // with another configuration
			failed := false
			chain.setFault(func(w http.ResponseWriter, r *http.Request) bool { // half of it is read when the endpoint fails
				failed = !failed && strings.Contains(r.URL.Path, "/txs/chain")
				return failed && answer("/txs/chain", 503, "")(w, r)
			})
			b.clock.Pass(pollEvery)
			require.Error(t, o.Poll(t.Context()))
			require.Equal(t, origin, b.account().Origin)
			chain.setFault(nil)
			b.clock.Pass(maxPause)
			names := []string{"old", "new", "lost"}
			for i := range 40 {
				names = append(names, fmt.Sprint("old", i))
			}
			o = b.hosts(chain, chain) // and the process is restarted
			for range 5 {
				b.round(o)
			}
			require.False(t, o.Health().Partial)
			require.Equal(t, published, o.Address())
			rows := b.rows(names...)
			require.Len(t, rows, len(names))
			causes := b.causes(names...)
			for _, name := range names {
				require.Equal(t, ledger.StatusConfirmed, rows[name].Status)
				if strings.HasPrefix(name, "old") {
					require.Equal(t, []string{ledger.CauseBackfilled}, causes[name])
				} else {
					require.NotContains(t, causes[name], ledger.CauseBackfilled)
				}
				require.True(t, rows[name].Final)
			}

			// It is not raised again, and not read again.
			for _, blocks := range []time.Duration{20, 60} {
				b.since = start.Add(blocks * 10 * time.Minute).Unix()
				o = b.hosts(chain, chain)
				before := b.position()
				for range 3 {
					b.round(o)
				}
				require.Equal(t, before, b.position())
				require.Equal(t, origin, b.account().Origin)
				require.False(t, o.Health().Partial)
			}
			require.Equal(t, rows, b.rows(names...))
			require.Equal(t, 1, strings.Count(b.log.String(), "are read again"))
		})
	}
}

func TestLowerOriginKeepsAddress(t *testing.T) {
	b, chain, o := observedBeside(t, zpub)
	chain.setPool(pay("evicted", b.at(0), 1000))
	b.round(o)
	require.Equal(t, b.at(1), o.Address())
	chain.setPool()

	b.since = start.Add(-2 * time.Hour).Unix()
	o = b.observer(chain)
	chain.setFault(answer("/address/", 503, "")) // the origin is lowered, and nothing else is read
	b.clock.Pass(pollEvery)
	require.Error(t, o.Poll(t.Context()))
	p, err := o.position(t.Context())
	require.NoError(t, err)
	require.Empty(t, p.anchor)
	require.Equal(t, b.at(1), o.Address())
	o = b.observer(chain) // the process is restarted
	require.Equal(t, b.at(1), o.Address(), "before the search ends")
	chain.setFault(nil)
	b.clock.Pass(maxPause)
	for range 3 {
		b.round(o)
		require.Equal(t, b.at(1), o.Address())
	}
	require.EqualValues(t, 1, *b.position().Index)
	require.Equal(t, b.at(1), b.observer(chain).Address())
}

// Another instance lowers the origin while a cycle is under way, or just before a cursor
// is stored.
func TestLowerOriginDuringCycle(t *testing.T) {
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
				p, err := o.position(t.Context())
				require.NoError(t, err)
				require.Empty(t, p.anchor)
				b.rows()
				b.becomes(o, "old", ledger.StatusConfirmed)
				require.EqualValues(t, 119, b.position().Height)
			})
		}
	}
}
