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

// network are indexes of one chain, each on a host of its own.
type network []*fakeIndex

func newNetwork(t testing.TB, indexes, blocks int) (n network) {
	for range indexes {
		n = append(n, newFakeIndex(t, blocks))
	}
	return n
}

// mine adds a block to all of them, and so many empty ones.
func (n network) mine(empty int, txs ...fakeTx) {
	for _, s := range n {
		s.bury(empty, txs...)
	}
}

func (n network) setPool(txs ...fakeTx) {
	for _, s := range n {
		s.setPool(txs...)
	}
}

// inBlock puts a transaction into a block that is there, as nobody but a liar can.
func (s *fakeIndex) inBlock(height int, txs ...fakeTx) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocks[height].txs = txs
}

// partly is a round half a minute later after which the rail is partial, for a reason.
func (b *bench) partly(o *Observer, code string) {
	b.Helper()
	b.clock.Pass(pollEvery)
	require.ErrorContains(b, o.Poll(b.Context()), code+" (")
	require.False(b, o.Health().Blind)
	require.True(b, o.Health().Partial)
	require.Equal(b, code, o.Health().LastError)
}

// wholly is a round after which all is observed.
func (b *bench) wholly(o *Observer) {
	b.Helper()
	b.round(o)
	require.False(b, o.Health().Partial)
	require.Empty(b, o.Health().LastError)
}

// position is how far the ledger says that was read.
func (b *bench) position() position {
	b.Helper()
	c, found, err := b.db.Cursor(b.Context(), testOffer, b.rail.Account())
	require.NoError(b, err)
	require.True(b, found)
	p, err := parsePosition(c)
	require.NoError(b, err)
	return p
}

func TestAnInventedPaymentIsSeenAndNeverCounts(t *testing.T) {
	t.Parallel()
	b, n, o := hosted(t, single, 2)
	n.mine(4)
	n[0].inBlock(100, pay("invented", single, 1_000_000))
	b.partly(o, observe.ErrDisagree)
	b.requireState("invented", ledger.StatusSeen)
	require.Zero(t, evidenceOf(b.row("invented")).Block)
	n.mine(20)
	b.partly(o, observe.ErrDisagree)
	b.requireState("invented", ledger.StatusSeen)
	require.EqualValues(t, 99, b.position().Height, "what is disputed is read again")

	n[0].inBlock(100)
	b.wholly(o)
	require.EqualValues(t, 114, b.position().Height)
	b.clock.Pass(evictedAfter)
	b.wholly(o)
	b.requireState("invented", ledger.StatusDropped)
}

// Two hosts must agree on each field that a receipt uses.
func TestATransactionReportedDifferentlyIsSeen(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]func(tx *fakeTx){
		"amount": func(tx *fakeTx) { tx.pays = []output{tx.pays[0], {scriptOf(single), 9_000_000}} },
		"output": func(tx *fakeTx) { tx.pays = append(slices.Clone(tx.pays), output{scriptOf(single), 500}) },
		"own":    func(tx *fakeTx) { tx.from = scriptOf(single) },
		"spends": func(tx *fakeTx) { tx.spends = hashOf("nothing") + ":7" },
	} {
		for liar := range 2 {
			t.Run(fmt.Sprint(name, liar), func(t *testing.T) {
				b, n, o := hosted(t, single, 2)
				tx := pay("p", single, 1000)
				n.mine(3, tx)
				lied := tx
				lie(&lied)
				n[liar].inBlock(100, lied)
				b.partly(o, observe.ErrDisagree)
				row := b.receipt("p")
				require.Equal(t, ledger.StatusSeen, row.Status)
				require.False(t, row.Own)
				n[liar].inBlock(100, tx)
				b.wholly(o)
				row = b.receipt("p")
				require.Equal(t, ledger.StatusConfirmed, row.Status)
				require.EqualValues(t, 1000, row.Amount)
				require.EqualValues(t, 1000, b.sum(ledger.StatusConfirmed))
				require.Zero(t, b.sum(ledger.StatusSeen), "what was made up is dropped")
			})
		}
	}
}

// One page of many is empty, once or for good: nothing is lost.
func TestAShortListIsABadAnswer(t *testing.T) {
	t.Parallel()
	for hosts := 1; hosts <= 2; hosts++ {
		for _, older := range []int{0, 3} { // of which the list tells that it goes on
			for _, lasting := range []bool{false, true} {
				t.Run(fmt.Sprint(hosts, older, lasting), func(t *testing.T) {
					b, n := newBench(t, single), newNetwork(t, hosts, 100)
					for i := range older {
						n.mine(0, pay(fmt.Sprint("older", i), single, 1000))
					}
					b.newLedger(start.Add(time.Hour).Unix())
					n.mine(13)
					o := b.hosts(n...)
					b.round(o)
					height := b.position().Height
					var names []string
					for i := range 30 {
						names = append(names, fmt.Sprint("p", i))
						n.mine(0, pay(names[i], single, 1000))
					}
					n.mine(20)
					n[0].setFault(func(w http.ResponseWriter, r *http.Request) bool {
						short := strings.Contains(r.URL.Path, "/txs/chain/") && answer("", 200, "[]")(w, r)
						if short && !lasting {
							n[0].fault = nil
						}
						return short
					})
					if lasting {
						b.clock.Pass(pollEvery)
						require.ErrorContains(t, o.Poll(t.Context()), observe.ErrBadAnswer)
						require.True(t, o.Health().Partial)
						require.Equal(t, height, b.position().Height, "the cursor stays")
						require.Zero(t, b.sum(ledger.StatusConfirmed))
						n[0].setFault(nil)
						b.clock.Pass(maxPause)
					}
					b.round(o)
					require.Len(t, b.rows(names...), 30)
					require.EqualValues(t, 30_000, b.sum(ledger.StatusConfirmed))
				})
			}
		}
	}
}

// The newest transactions are missing, and the list goes on below: what is older than
// the last final block became more, which it cannot.
func TestAListWithAGapIsABadAnswer(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newFakeIndex(t, 100)
	chain.mine(pay("older", single, 1000))
	b.newLedger(start.Add(time.Hour).Unix())
	chain.mineEmpty(19)
	o := b.observer(chain)
	b.round(o)
	tx := pay("p", single, 1000)
	chain.bury(2, tx)
	counted := object{"tx_count": 2, "funded_txo_count": 2, "spent_txo_count": 0}
	chain.inBlock(120)
	chain.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Path == "/address/"+single && answer("", 200, encode(object{"chain_stats": counted, "mempool_stats": counted}))(w, r)
	})
	require.EqualError(t, o.Poll(t.Context()), "bad_answer (127.0.0.1)")
	require.Less(t, b.position().Height, int64(120))
	chain.setFault(nil)
	chain.inBlock(120, tx)
	b.clock.Pass(maxPause)
	require.EqualError(t, o.Poll(t.Context()), "bad_answer (127.0.0.1)", "of two that differ either may be the lie")
	b.clock.Pass(maxPause)
	b.becomes(o, "p", ledger.StatusConfirmed)
}

func TestALaggingHostHoldsWhatItDoesNotShow(t *testing.T) {
	t.Parallel()
	b, n, o := hosted(t, single, 2)
	tx := pay("p", single, 1000)
	n[0].mine(tx)
	b.wholly(o)
	b.requireState("p", ledger.StatusSeen)
	n[0].mineEmpty(20)
	b.partly(o, observe.ErrLagging)
	b.requireState("p", ledger.StatusSeen)
	require.Equal(t, "block 99", o.Health().ObservedThrough)
	require.EqualValues(t, 88, b.position().Height)
	n[1].mine(tx)
	n[1].mineEmpty(20)
	b.wholly(o)
	b.requireState("p", ledger.StatusConfirmed)

	// One stands still, and nobody pays.
	n[0].mineEmpty(30)
	b.clock.Pass(9 * time.Hour)
	b.round(o)
	require.True(t, o.Health().Partial)
	require.Equal(t, observe.ErrLagging, o.Health().LastError)
}

// endless answers as an index whose list of confirmed transactions never ends: so many
// a page, each with so many outputs of one satoshi to a script.
func (s *fakeIndex) endless(page, outputs int, script string) {
	tx := pay("one", single, 1)
	tx.pays = slices.Repeat([]output{{script, 1}}, outputs)
	one, listed := encode(s.wire(tx, len(s.blocks)-1)), 0
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		switch {
		case path[0] != "address":
			return false
		case len(path) == 2:
			many := object{"tx_count": 1_000_000, "funded_txo_count": 1_000_000, "spent_txo_count": 0}
			_ = json.NewEncoder(w).Encode(object{"chain_stats": many, "mempool_stats": object{"tx_count": 0, "funded_txo_count": 0, "spent_txo_count": 0}})
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

// Of three hosts one takes its time: the round goes on with the others.
func TestASlowHostHoldsUpNoCycle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		each    time.Duration // that an answer takes
		endless bool
	}{
		"that lists without an end": {17 * time.Second, true},
		"that is slow at all":       {19 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, 3, 100)
			if c.endless {
				n[2].endless(25, 1, strangers)
			}
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, single)
				o := b.observerOf(transport(func(r *http.Request) (*http.Response, error) {
					i := r.URL.Host[0] - 'a'
					if i == 2 {
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
				n.mine(1, pay("p", single, 1000))
				began := time.Now()
				b.round(o)
				require.LessOrEqual(t, time.Since(began), patience)
				b.requireState("p", ledger.StatusConfirmed)
				require.Equal(t, observe.ErrUnreachable, o.Health().LastError)
				began = time.Now()
				b.clock.Pass(time.Second - pollEvery)
				b.round(o)
				require.Zero(t, time.Since(began), "it is left alone for a while")
			})
		})
	}
}

// What one host reports is bounded, whatever it counts.
func TestAnEndlessListIsABadAnswerSoon(t *testing.T) {
	// Not beside others: what is read is as large as may be.
	n := newNetwork(t, 3, 100)
	synctest.Test(t, func(t *testing.T) { // simulated time, so that a slow machine does not use up the host's time
		b := newBench(t, single)
		o := b.hosts(n...)
		b.wholly(o)
		n.mine(1, pay("p", single, 1000))
		n[2].endless(900, 1, scriptOf(single))
		n[2].called()
		b.round(o)
		require.Equal(t, observe.ErrBadAnswer, o.Health().LastError)
		require.LessOrEqual(t, count(n[2].called(), "/txs/chain"), maxTransactions/900+1)
		b.requireState("p", ledger.StatusConfirmed)
	})
}

func TestACycleThatDoesNotEndIsReported(t *testing.T) {
	t.Parallel()
	b, _, o := hosted(t, single, 2)
	b.clock.Pass(lateAfter)
	require.False(t, o.Health().Partial)
	b.clock.Pass(time.Second)
	require.True(t, o.Health().Partial)
	require.Equal(t, observe.ErrLagging, o.Health().LastError)
	b.wholly(o)
}
