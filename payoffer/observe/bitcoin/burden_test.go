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

// endless answers as an index whose list of confirmed transactions never ends: so many
// a page, each with so many outputs of one satoshi to a script.
func (s *standIn) endless(page, outputs int, script string) {
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
func TestASlowHostHoldsUpNoRound(t *testing.T) {
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
				b.clock.advance(time.Second - pollEvery)
				b.round(o)
				require.Zero(t, time.Since(began), "it is left alone for a while")
			})
		})
	}
}

// Where nobody else can tell, a long list is waited for.
func TestAHostThatIsNeededIsWaitedFor(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, 100)
	var txs []standInTx
	for i := range 500 {
		txs = append(txs, pay(fmt.Sprint("p", i), single, 1000))
	}
	n.mine(1, txs...)
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, single)
		o := b.observerOf(transport(func(r *http.Request) (*http.Response, error) {
			i := r.URL.Host[0] - 'a'
			time.Sleep(time.Duration(i) * 10 * time.Second)
			answer := httptest.NewRecorder()
			n[i].ServeHTTP(answer, r)
			return answer.Result(), nil
		}), "https://a.example", "https://b.example")
		b.round(o)
		all, err := b.book.Receipts(t.Context(), testOffer, 0, 1000)
		require.NoError(t, err)
		require.Len(t, all, 500)
	})
}

// What one host claims is bounded, whatever it counts.
func TestAnEndlessListIsABadAnswerSoon(t *testing.T) {
	// Not beside others: what is read is as large as may be.
	for name, c := range map[string]struct{ page, outputs, most int }{
		"of many transactions": {900, 1, maxTransactions/900 + 1},
		"of large ones":        {20, 5000, maxKept/(20*5000*140) + 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, 3, 100)
			synctest.Test(t, func(t *testing.T) { // a host has its time, which a slow machine may not use up
				b := newBench(t, single)
				o := b.hosts(n...)
				b.wholly(o)
				n.mine(1, pay("p", single, 1000))
				n[2].endless(c.page, c.outputs, scriptOf(single))
				n[2].called()
				b.round(o)
				require.Equal(t, observe.ErrBadAnswer, o.Health().LastError)
				require.LessOrEqual(t, count(n[2].called(), "/txs/chain"), c.most)
				b.requireState("p", ledger.StatusConfirmed)
			})
		})
	}
}

// One answer may list more than is ever recorded of what waits.
func TestAFloodInOneRoundIsBounded(t *testing.T) {
	t.Parallel()
	b, n := newBench(t, single), newNetwork(t, 2, 100)
	o := b.hosts(n...)
	b.wholly(o)
	flood := pay("flood", single, 600)
	for range 2 * maxUnconfirmed {
		flood.pays = append(flood.pays, output{scriptOf(single), 600})
	}
	n[0].setPool(flood)
	b.round(o)
	rows, err := b.book.Unfinal(t.Context(), testOffer, b.rail.Account(), 10*rowsAtOnce)
	require.NoError(t, err)
	require.Len(t, rows, maxUnsure)
	n[0].setPool()
	b.clock.advance(2 * evictedAfter)
	b.round(o)

	// And keeps nobody else's payment from being seen.
	n.setPool(pay("p", single, 1000))
	b.round(o)
	_, found, err := b.book.Receipt(t.Context(), testOffer, b.rail.Account(), hashOf("p")+":1")
	require.NoError(t, err)
	require.True(t, found)
}

// However many payments there are that nobody confirms, or values: one that counts is
// taken back when the chain takes it back.
func TestAMassOfReceiptsHidesNoDoubleSpend(t *testing.T) {
	t.Parallel()
	for name, dropped := range map[string]bool{"dropped": true, "without a value": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, n := newBench(t, single), newNetwork(t, 2, 100)
			o := b.hosts(n...)
			b.wholly(o)
			evidence := observe.Evidence(evidence{Address: single, Inputs: []string{hashOf("nothing") + ":0"}, Block: map[bool]int64{false: 50}[dropped]})
			var many []ledger.Sighting
			for i := range rowsAtOnce + 10 {
				many = append(many, ledger.Sighting{
					Offer: testOffer, Account: b.rail.Account(), Rail: b.rail.Name(), ExternalID: fmt.Sprintf("%s:%d", hashOf("many"), i),
					Transaction: hashOf("many"), Asset: asset, Amount: 1, State: map[bool]ledger.Status{true: ledger.StatusDropped, false: ledger.StatusConfirmed}[dropped],
					EvidenceLevel: ledger.LevelChain, Evidence: evidence, OccurredAt: b.clock.Now().Unix(), Cause: "mempool",
				})
			}
			_, err := b.book.Record(t.Context(), nil, many...)
			require.NoError(t, err)
			n.mine(1, pay("p", single, 1000))
			b.round(o)
			state := func() ledger.Status {
				r, found, err := b.book.Receipt(t.Context(), testOffer, b.rail.Account(), hashOf("p")+":1")
				require.NoError(t, err)
				require.True(t, found)
				return r.Status
			}
			require.Equal(t, ledger.StatusConfirmed, state())
			for _, s := range n {
				s.rewind(2)
			}
			n.mine(3, standInTx{name: "double spend", spends: hashOf("coin of p") + ":0", pays: []output{{strangers, 1}}})
			for range 3 {
				b.clock.advance(maxPause)
				_ = o.Round(t.Context())
			}
			require.Equal(t, ledger.StatusDropped, state())
		})
	}
}

func TestARoundThatDoesNotEndIsNoticed(t *testing.T) {
	t.Parallel()
	b, n := newBench(t, single), newNetwork(t, 2, 100)
	o := b.hosts(n...)
	b.wholly(o)
	b.clock.advance(lateAfter)
	require.False(t, o.Health().Partial)
	b.clock.advance(time.Second)
	require.True(t, o.Health().Partial)
	require.Equal(t, observe.ErrLagging, o.Health().LastError)
	b.wholly(o)
}
