package bitcoin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// fork gives an index another history from a height on, of the same length.
func (fi *fakeIndex) fork(height int, txs ...fakeTx) {
	n := len(fi.blocks) - height
	fi.rewind(n)
	fi.bury(n-1, append(txs, pay("fork", strangers, 1))...)
}

// A payment is made in block 100 and is three blocks deep. One endpoint misbehaves: the reader or its witness.
func TestPaymentWithMisbehavingEndpoint(t *testing.T) {
	t.Parallel()
	tx, invented := pay("p", single, 1000), pay("invented", single, 5000)
	more, spent, own := pay("p", single, 9000), pay("p", single, 1000), pay("p", single, 1000)
	spent.spends, own.from = hashOf("nothing")+":7", scriptOf(single)
	extra := pay("p", single, 1000)
	extra.pays = append(slices.Clone(extra.pays), output{scriptOf(single), 500})
	shows := func(txs ...fakeTx) func(*fakeIndex) { return func(s *fakeIndex) { s.inBlock(100, txs...) } }
	fails := func(status int) func(*fakeIndex) {
		return func(s *fakeIndex) { s.setFault(answer("", status, "")) }
	}
	const never = -1
	for name, c := range map[string]struct {
		hosts   int
		start   func(bad *fakeIndex) // before anything is read
		wrong   func(bad *fakeIndex)
		minutes int // until the payment counts
		code    string
		logged  int
		held    bool // the cursor does not pass block 100
	}{
		"one endpoint":         {hosts: 1, minutes: 0},
		"well":                 {hosts: 2, minutes: 0},
		"dead from the start":  {hosts: 2, start: fails(503), minutes: 0, code: observe.ErrUnreachable},
		"dies":                 {hosts: 2, wrong: fails(503), minutes: 10, code: observe.ErrUnreachable},
		"is rate-limited":      {hosts: 2, wrong: fails(429), minutes: 10, code: observe.ErrLimited},
		"lags":                 {hosts: 2, wrong: func(s *fakeIndex) { s.rewind(3) }, minutes: never, code: observe.ErrLagging, held: true},
		"invents a payment":    {hosts: 2, wrong: shows(tx, invented), minutes: 0, code: observe.ErrDisagree, logged: 1, held: true},
		"omits a payment":      {hosts: 2, wrong: shows(), minutes: never, code: observe.ErrDisagree, logged: 1, held: true},
		"shows another amount": {hosts: 2, wrong: shows(more), minutes: never, code: observe.ErrDisagree, logged: 1, held: true},
		"shows another output": {hosts: 2, wrong: shows(extra), minutes: never, code: observe.ErrDisagree, logged: 1, held: true},
		"shows another input":  {hosts: 2, wrong: shows(spent), minutes: never, code: observe.ErrDisagree, logged: 1, held: true},
		"shows own money":      {hosts: 2, wrong: shows(own), minutes: never, code: observe.ErrDisagree, logged: 1, held: true},
		"shows another history": {hosts: 2, wrong: func(s *fakeIndex) { s.fork(50) }, minutes: never,
			code: observe.ErrDisagree, held: true},
		"shows a late fork": {hosts: 2, wrong: func(s *fakeIndex) { s.fork(100, invented) }, minutes: never,
			code: observe.ErrDisagree, logged: 2, held: true},
	} {
		for bad := range c.hosts {
			t.Run(fmt.Sprint(name, bad), func(t *testing.T) {
				t.Parallel()
				b, n := newBench(t, single), newNetwork(t, c.hosts, 100)
				if c.start != nil {
					c.start(n[bad])
				}
				o := b.hosts(n...)
				poll := func() {
					_ = o.Poll(t.Context())
					b.clock.Pass(pollEvery)
				}
				poll()
				poll()
				n.mine(2, tx)
				if c.wrong != nil {
					c.wrong(n[bad])
				}
				paid, counts := b.clock.Now(), never
				for counts == never && b.clock.Now().Sub(paid) < time.Hour/2 {
					at := b.clock.Now()
					if poll(); b.sum(ledger.StatusConfirmed) > 0 {
						counts = int(at.Sub(paid) / time.Minute)
					}
				}
				require.Equal(t, c.minutes, counts)
				require.Equal(t, c.code, o.Health().LastError)
				require.False(t, o.Health().Blind)
				require.Equal(t, c.hosts == 1 || c.code != "", o.Health().Partial)
				require.Equal(t, c.logged, strings.Count(b.log.String(), "two Esplora endpoints disagree about a payment"))
				if row, found := b.rows("p", "invented", "fork")["invented"]; found {
					require.Equal(t, ledger.StatusSeen, row.Status)
					require.Zero(t, evidenceOf(row).Block)
				}
				n.mine(20)
				poll()
				require.Equal(t, c.held, b.position().Height < 100)

				for _, s := range n {
					s.as(n[(bad+1)%c.hosts])
				}
				for range 3 {
					b.clock.Pass(maxPause)
					poll()
				}
				require.EqualValues(t, 1000, b.sum(ledger.StatusConfirmed))
				require.Equal(t, c.hosts == 1, o.Health().Partial)
				require.EqualValues(t, 112, b.position().Height)
				for range 2 {
					b.clock.Pass(evictedAfter)
					poll()
				}
				require.Zero(t, b.sum(ledger.StatusSeen), "what was invented is dropped")
			})
		}
	}
}

// The reader omits a payment while its witness is dead. The cursor passes the block, and the witness reads it later.
func TestWitnessReadsWhatItMissed(t *testing.T) {
	t.Parallel()
	b, n, o := hosted(t, single, 2)
	tx := pay("p", single, 1000)
	n[1].setFault(answer("", 503, ""))
	n[0].mine()
	n[1].mine(tx)
	n.mine(20)
	for range 25 {
		b.clock.Pass(pollEvery)
		_ = o.Poll(t.Context())
	}
	require.EqualValues(t, 110, b.position().Height)
	require.EqualValues(t, 88, b.position().witnessed)
	b.rows()

	// It is back, and the process is restarted.
	n[1].setFault(nil)
	n[1].blocks = slices.Clone(n[0].blocks)
	n[1].inBlock(100, tx)
	o = b.hosts(n...)
	b.partly(o, observe.ErrDisagree)
	b.requireState("p", ledger.StatusSeen)
	require.EqualValues(t, 99, b.position().witnessed)
	n[0].inBlock(100, tx)
	b.wholly(o)
	b.requireState("p", ledger.StatusConfirmed)
	require.True(t, b.row("p").Final)
	require.EqualValues(t, 110, b.position().witnessed)
}

func TestThirdEndpointDecides(t *testing.T) {
	t.Parallel()
	tx := pay("p", single, 1000)
	for name, wrong := range map[string]func(s *fakeIndex){
		"out":             func(s *fakeIndex) { s.setFault(answer("", 503, "")) },
		"hides":           func(s *fakeIndex) { s.inBlock(100) },
		"invents":         func(s *fakeIndex) { s.inBlock(101, pay("invented", single, 5000)) },
		"is short":        func(s *fakeIndex) { s.setFault(answer("/txs/chain", 200, "[]")) },
		"lags":            func(s *fakeIndex) { s.rewind(3) },
		"too high":        func(s *fakeIndex) { s.mineEmpty(12) },
		"another history": func(s *fakeIndex) { s.fork(60) },
	} {
		for bad := range 3 {
			t.Run(fmt.Sprint(name, bad), func(t *testing.T) {
				t.Parallel()
				b, n, o := hosted(t, single, 3)
				n.mine(2, tx)
				wrong(n[bad])
				b.round(o)
				b.round(o) // a reader that lags shows nothing
				require.False(t, o.Health().Partial)
				require.Equal(t, ledger.StatusConfirmed, b.rows("p", "invented")["p"].Status)
				require.Equal(t, "block 102", o.Health().ObservedThrough)
				require.EqualValues(t, 91, b.position().Height)
				require.EqualValues(t, 1000, b.sum(ledger.StatusConfirmed))
			})
		}
	}
}

// Three endpoints show three amounts: none counts, and the cursor does not pass the block.
func TestThreeContradictionsAreHeld(t *testing.T) {
	t.Parallel()
	b, n, o := hosted(t, single, 3)
	for i, s := range n {
		s.mine(pay("p", single, int64(1000+i)))
	}
	n.mine(20)
	b.partly(o, observe.ErrDisagree)
	b.requireState("p", ledger.StatusSeen)
	require.EqualValues(t, 99, b.position().Height)
}

// Nothing was paid, and one endpoint is on a fork.
func TestForkIsReported(t *testing.T) {
	t.Parallel()
	b, n, o := hosted(t, single, 2)
	n[1].fork(99)
	b.wholly(o)
	n[1].fork(95)
	b.partly(o, observe.ErrDisagree)
	n[1].as(n[0])
	b.wholly(o)
}

// A payment counts. What one host says against it changes nothing, and what two say does.
func TestReceiptChangeNeedsWitness(t *testing.T) {
	t.Parallel()
	tx := pay("p", single, 1000)
	bump := pay("bump", single, 900)
	bump.spends = tx.spends
	reorganize := func(then func(s *fakeIndex)) func(s *fakeIndex) {
		return func(s *fakeIndex) { s.rewind(3); then(s) }
	}
	for name, c := range map[string]struct {
		pending bool
		changes func(s *fakeIndex)
		waits   time.Duration
		want    ledger.Status
	}{
		"waits again":       {changes: reorganize(func(s *fakeIndex) { s.setPool(tx); s.mineEmpty(4) }), want: ledger.StatusSeen},
		"is gone":           {changes: reorganize(func(s *fakeIndex) { s.mineEmpty(4) }), want: ledger.StatusSeen},
		"is hidden":         {changes: func(s *fakeIndex) { s.inBlock(100) }, want: ledger.StatusSeen},
		"is in the mempool": {changes: func(s *fakeIndex) { s.inBlock(100); s.setPool(tx) }, want: ledger.StatusSeen},
		"is evicted":        {pending: true, changes: func(s *fakeIndex) { s.setPool() }, waits: evictedAfter, want: ledger.StatusDropped},
		"is replaced":       {pending: true, changes: func(s *fakeIndex) { s.setPool(bump) }, want: ledger.StatusDropped},
	} {
		for first := range 2 {
			t.Run(fmt.Sprint(name, first), func(t *testing.T) {
				t.Parallel()
				b, n, o := hosted(t, single, 2)
				if c.pending {
					n.setPool(tx)
				} else {
					n.mine(2, tx)
				}
				b.wholly(o)
				before := b.receipt("p")
				change := func(i int) {
					c.changes(n[i])
					for range 2 {
						b.clock.Pass(c.waits + pollEvery)
						_ = o.Poll(t.Context())
					}
				}
				change(first)
				require.Equal(t, before, b.receipt("p"))
				change(1 - first)
				require.Equal(t, c.want, b.receipt("p").Status)
				require.Zero(t, b.sum(ledger.StatusConfirmed))
			})
		}
	}
}

// After a reorganization, one endpoint shows the payment in its mempool and the other one nowhere: it is in no block.
func TestReorganizedPaymentInOneMempoolWaits(t *testing.T) {
	t.Parallel()
	b, n, o := hosted(t, single, 2)
	tx := pay("p", single, 1000)
	n.mine(2, tx)
	b.wholly(o)
	b.requireState("p", ledger.StatusConfirmed)
	n[1].setPool(tx)
	for _, s := range n {
		s.rewind(3)
		s.mineEmpty(4)
	}
	b.wholly(o)
	b.requireState("p", ledger.StatusSeen)
}

// One endpoint of three shows a payment, another one fails when it is asked about it: that is no denial.
func TestFailedLookUpDeniesNothing(t *testing.T) {
	t.Parallel()
	b, n, o := hosted(t, single, 3)
	n.mine(20)
	n[1].inBlock(100, pay("p", single, 1000))
	n[0].setFault(answer("/tx/", 503, ""))
	b.partly(o, observe.ErrUnreachable)
	b.requireState("p", ledger.StatusSeen)
	require.EqualValues(t, 99, b.position().Height)
}

// falseCounts says that every address was used once.
func falseCounts(lists bool) func(w http.ResponseWriter, r *http.Request) bool {
	counted := encode(object{"chain_stats": object{"tx_count": 1}, "mempool_stats": object{"tx_count": 0}})
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

func TestAddressAdvanceNeedsTwoHosts(t *testing.T) {
	t.Parallel()
	for _, lists := range []bool{false, true} {
		for _, searching := range []bool{false, true} {
			b, n := newBench(t, zpub), newNetwork(t, 2, 100)
			o := b.hosts(n...)
			if !searching {
				b.wholly(o)
			}
			n[0].setFault(falseCounts(lists))
			for range 6 {
				b.clock.Pass(pollEvery)
				_ = o.Poll(t.Context())
				require.Contains(t, []string{"", b.at(0)}, o.Address())
			}
			n[0].setFault(nil)
			for range 3 {
				b.clock.Pass(maxPause)
				_ = o.Poll(t.Context())
			}
			b.wholly(o)
			require.Equal(t, b.at(0), o.Address())
			n.mine(0, pay("p", b.at(0), 1000))
			b.wholly(o)
			require.Equal(t, b.at(1), o.Address())
		}
	}
}

// A live witness fails: the reader does not advance the address.
func TestAddressWaitsForWitness(t *testing.T) {
	t.Parallel()
	b, n, o := hosted(t, zpub, 2)
	n[0].setPool(pay("p", b.at(0), 1000))
	n[1].setFault(answer("", 503, ""))
	b.partly(o, observe.ErrUnreachable)
	require.Equal(t, b.at(0), o.Address())
	b.clock.Pass(10 * time.Minute)
	b.partly(o, observe.ErrUnreachable)
	require.Equal(t, b.at(1), o.Address())
}

// A final block changes. With a second host it takes two to say so.
func TestFinalHistoryChangeStopsRail(t *testing.T) {
	t.Parallel()
	for hosts := 1; hosts <= 2; hosts++ {
		b, n := newBench(t, single), newNetwork(t, hosts, 100)
		o := b.hosts(n...)
		b.round(o)
		honest := slices.Clone(n[0].blocks)
		for i, s := range n {
			s.rewind(20)
			s.bury(30, pay("other history", single, 1000))
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

// One page of many is empty, once or for good: nothing is lost.
func TestShortTransactionListIsBadAnswer(t *testing.T) {
	t.Parallel()
	for _, older := range []int{0, 3} { // of which the list tells that it goes on
		for _, lasting := range []bool{false, true} {
			t.Run(fmt.Sprint(older, lasting), func(t *testing.T) {
				t.Parallel()
				b, chain := newBench(t, single), newFakeIndex(t, 100)
				for i := range older {
					chain.mine(pay(fmt.Sprint("older", i), single, 1000))
				}
				b.newLedger(start.Add(2 * time.Hour).Unix())
				chain.mineEmpty(13)
				o := b.hosts(chain)
				b.round(o)
				height := b.position().Height
				var names []string
				for i := range 30 {
					names = append(names, fmt.Sprint("p", i))
					chain.mine(pay(names[i], single, 1000))
				}
				chain.mineEmpty(20)
				chain.setFault(func(w http.ResponseWriter, r *http.Request) bool {
					short := strings.Contains(r.URL.Path, "/txs/chain/") && answer("", 200, "[]")(w, r)
					if short && !lasting {
						chain.fault = nil
					}
					return short
				})
				if lasting {
					b.clock.Pass(pollEvery)
					require.ErrorContains(t, o.Poll(t.Context()), observe.ErrBadAnswer)
					require.Equal(t, height, b.position().Height, "the cursor stays")
					require.Zero(t, b.sum(ledger.StatusConfirmed))
					chain.setFault(nil)
					b.clock.Pass(maxPause)
				}
				b.round(o)
				require.Len(t, b.rows(names...), 30)
				require.EqualValues(t, 30_000, b.sum(ledger.StatusConfirmed))
			})
		}
	}
}

// endless answers as an index whose list of confirmed transactions never ends: so many a page, each with an output of
// one satoshi to a script.
func (fi *fakeIndex) endless(page int, script string) {
	tx := pay("one", single, 1)
	tx.pays = []output{{script, 1}}
	one, listed := encode(fi.wire(tx, len(fi.blocks)-1)), 0
	fi.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		switch {
		case path[0] != "address":
			return false
		case len(path) == 2:
			_ = json.NewEncoder(w).Encode(object{"chain_stats": object{"tx_count": 1_000_000}, "mempool_stats": object{"tx_count": 0}})
			return true
		case path[3] != "chain":
			return false
		}
		for i := range page {
			listed++
			_, _ = io.WriteString(w, "[,"[min(i, 1):][:1])
			id, coin := hashOf(fmt.Sprint("endless", listed)), hashOf(fmt.Sprint("coin of endless", listed))
			_, _ = strings.NewReplacer(hashOf("one"), id, hashOf("coin of one"), coin).WriteString(w, one)
		}
		_, _ = io.WriteString(w, "]")
		return true
	})
}

// The reader or the witness takes its time: the cycle goes on with the others.
func TestSlowEndpointIsReplaced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		each    time.Duration // that an answer takes
		endless bool
	}{
		"that lists without an end": {17 * time.Second, true},
		"that is slow at all":       {19 * time.Second, false},
	} {
		for slow := range 2 {
			t.Run(fmt.Sprint(name, slow), func(t *testing.T) {
				t.Parallel()
				n := newNetwork(t, 3, 100)
				n.mine(1, pay("p", single, 1000))
				if c.endless {
					n[slow].endless(25, strangers)
				}
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, single)
					o := b.observerOf(transport(func(r *http.Request) (*http.Response, error) {
						i := int(r.URL.Host[0] - 'a')
						if i == slow {
							select {
							case <-time.After(c.each):
							case <-r.Context().Done():
								return nil, r.Context().Err()
							}
						}
						answer := httptest.NewRecorder()
						n[i].ServeHTTP(answer, r)
						return answer.Result(), nil
					}), "https://a.example", "https://b.example", "https://c.example")
					began := time.Now()
					b.round(o)
					require.LessOrEqual(t, time.Since(began), 2*[]time.Duration{maxWork, patience}[slow])
					b.requireState("p", ledger.StatusConfirmed)
					began = time.Now()
					b.clock.Pass(time.Second - pollEvery)
					b.round(o)
					if c.endless {
						require.Zero(t, time.Since(began), "it is left alone for a while")
					}
				})
			})
		}
	}
}

// What one host reports is bounded, whatever it counts.
func TestEndlessTransactionListIsBadAnswer(t *testing.T) {
	// Not beside others: what is read is as large as may be.
	n := newNetwork(t, 3, 100)
	synctest.Test(t, func(t *testing.T) { // simulated time, so that a slow machine does not use up the host's time
		b := newBench(t, single)
		o := b.hosts(n...)
		b.wholly(o)
		n.mine(1, pay("p", single, 1000))
		n[0].endless(900, scriptOf(single))
		n[0].called()
		b.round(o)
		require.Equal(t, observe.ErrBadAnswer, o.Health().LastError)
		require.LessOrEqual(t, count(n[0].called(), "/txs/chain"), maxTransactions/900+1)
		b.requireState("p", ledger.StatusConfirmed)
	})
}

func TestUnfinishedCycleIsPartial(t *testing.T) {
	t.Parallel()
	b, _, o := hosted(t, single, 2)
	b.clock.Pass(lateAfter)
	require.False(t, o.Health().Partial)
	b.clock.Pass(time.Second)
	require.True(t, o.Health().Partial)
	require.Equal(t, observe.ErrLagging, o.Health().LastError)
	b.wholly(o)
}
