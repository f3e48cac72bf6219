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
				b.clock.advance(time.Second - pollEvery)
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
	b.clock.advance(lateAfter)
	require.False(t, o.Health().Partial)
	b.clock.advance(time.Second)
	require.True(t, o.Health().Partial)
	require.Equal(t, observe.ErrLagging, o.Health().LastError)
	b.wholly(o)
}
