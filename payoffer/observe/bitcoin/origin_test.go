package bitcoin

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

func TestOriginCountsPaymentsSinceStart(t *testing.T) {
	t.Parallel()
	for _, blocks := range []int{1, 6, 11, 60} {
		for _, account := range []string{single, zpub} {
			t.Run(fmt.Sprint(blocks, account[:2]), func(t *testing.T) {
				b, chain := newBench(t, account), newFakeIndex(t, 100)
				before := pay("before", b.at(0), 1000)
				chain.blocks[len(chain.blocks)-1].txs = []fakeTx{before}
				o := b.observer(chain)
				chain.setFault(answer("/", 503, ""))
				require.Error(t, o.Poll(t.Context()))
				require.True(t, o.Health().Blind, "nothing is known, not even that it is nothing")

				names := []string{"first", "last"}
				chain.bury(blocks-1, pay("first", b.at(0), 1000))
				chain.bury(1, pay("last", b.at(0), 1000))
				b.clock.Pass(time.Duration(blocks+2) * 10 * time.Minute)
				chain.setFault(nil)
				b.round(b.observer(chain)) // it may be another process, too
				rows := b.rows(names...)
				require.Len(t, rows, 2)
				for _, name := range names {
					require.Equal(t, ledger.StatusConfirmed, rows[name].Status)
				}
				require.Equal(t, "99", b.account().Origin)
			})
		}
	}
}

func TestOriginUsesClockOffset(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]string{0: "111", 2 * time.Hour: "99", -2 * time.Hour: "123"} {
		b, chain := newBench(t, single), newFakeIndex(t, 200)
		chain.start = start.Unix() - 99*600
		b.newLedger(start.Add(2*time.Hour + time.Minute).Unix()) // by this machine
		b.clock.Pass(20 * time.Hour)
		b.ahead = ahead
		b.round(b.observer(chain))
		require.Equal(t, want, b.account().Origin)
	}
}

// The clocks of miners are off, and the median time past lags. No payment of a
// block that was mined after the moment is left out unless its miner's clock was
// behind, and of those before it no more than eleven count.
func TestOriginToleratesMinerClocks(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newFakeIndex(t, 1)
	o := b.observer(chain)
	for n := range cases.Of(200, 2000, 20_000) {
		random := rand.New(rand.NewPCG(uint64(n), 11))
		chain.mu.Lock()
		chain.blocks = chain.blocks[:1]
		for i := 1; i <= 1+random.IntN(120); i++ {
			late := int64(0)
			switch random.IntN(4) {
			case 0:
				late = random.Int64N(7200)
			case 1:
				late = -random.Int64N(7200)
			}
			chain.blocks = append(chain.blocks, fakeBlock{hash: hashOf(fmt.Sprint(n, i))})
			chain.blocks[i].late = max(late, chain.median(i-1)+1-chain.timeOf(i)) // as the rules of the chain want
		}
		top := len(chain.blocks) - 1
		times, medians := make([]int64, top+1), make([]int64, top+1)
		for i := range times {
			times[i], medians[i] = chain.timeOf(i), chain.median(i)
		}
		chain.mu.Unlock()
		moment := chain.start + random.Int64N(int64(top+20)*600) - 6000
		r := &reading{endpoint: o.endpoints[0], cycle: o.newCycle(state{}), tip: block{Height: int64(top), ID: chain.blocks[top].hash}}
		got, err := r.before(t.Context(), moment)
		require.NoError(t, err)

		want := int64(0)
		if i := slices.IndexFunc(medians, func(m int64) bool { return m > moment }); i != 0 {
			if i < 0 {
				i = len(medians)
			}
			want = int64(i - 1)
			for j := max(0, i-10); j < i; j++ {
				if times[j] > moment {
					want = int64(max(0, j-1))
					break
				}
			}
		}
		require.Equal(t, want, got, "case %d", n)
		for i := int64(1); i <= got; i++ {
			require.LessOrEqual(t, medians[i], moment)
		}
		for i := got + 1; i <= int64(top); i++ {
			if times[i] <= moment {
				require.LessOrEqual(t, i-got, int64(11), "case %d", n)
			}
		}
	}
}

func TestOriginRefusesMalformedBlockList(t *testing.T) {
	t.Parallel()
	header := func(height int) string {
		return fmt.Sprintf(`{"id":%q,"height":%d,"timestamp":1,"mediantime":1}`, mainGenesis, height)
	}
	for name, body := range map[string]string{
		"empty": "[]", "another height": "[" + header(98) + "]", "a gap": "[" + header(99) + "," + header(97) + "]",
		"no median": `[{"id":"` + mainGenesis + `","height":99,"timestamp":1}]`, "no list": "{}", "a page": "<html>",
	} {
		t.Run(name, func(t *testing.T) {
			b, chain := newBench(t, single), newFakeIndex(t, 100)
			o := b.observer(chain)
			chain.setFault(answer("/blocks/99", 200, body))
			require.ErrorContains(t, o.Poll(t.Context()), observe.ErrBadAnswer)
			require.True(t, o.Health().Blind)
			require.Empty(t, b.account().Origin)
		})
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
			chain.bury(12, pay("too old", b.at(0), 1000))
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

			b.since = start.Add(5 * 10 * time.Minute).Unix()
			o = b.hosts(chain, chain) // with another configuration
			failed := false
			chain.setFault(func(w http.ResponseWriter, r *http.Request) bool { // half of it is read when the endpoint fails
				failed = !failed && strings.Contains(r.URL.Path, "/txs/chain")
				return failed && answer("/txs/chain", 503, "")(w, r)
			})
			b.clock.Pass(pollEvery)
			require.Error(t, o.Poll(t.Context()))
			require.Equal(t, "104", b.account().Origin)
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
			for _, blocks := range []time.Duration{5, 60} {
				b.since = start.Add(blocks * 10 * time.Minute).Unix()
				o = b.hosts(chain, chain)
				before := b.position()
				for range 3 {
					b.round(o)
				}
				require.Equal(t, before, b.position())
				require.Equal(t, "104", b.account().Origin)
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

	b.since = start.Add(-time.Hour).Unix()
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
