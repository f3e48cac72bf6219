package upgrade

import (
	"crypto/ecdsa"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// traffic is sent to all instances in turn, each thing until it is answered with 200.
type traffic struct {
	*shop
	stop    chan struct{}
	clients sync.WaitGroup
	// away says that an instance was killed and that what it left open may still be; repeating counts what is sent again.
	away      atomic.Bool
	repeating atomic.Int64

	mu        sync.Mutex
	instances []*instance
	payments  []ledger.IntentKey
	// cards, refunds and entries count what was answered with 200, and turned what was not, before it was sent again.
	cards, refunds, entries, turned int
}

// begin starts clients of every kind.
func (s *shop) begin(first *instance) *traffic {
	w := &traffic{shop: s, stop: make(chan struct{}), instances: []*instance{first}}
	for n, buyer := range s.buyers(3) {
		w.keep(n, func(int) bool { return w.buy(n, buyer) })
	}
	for n := range 2 {
		w.keep(n, func(turn int) bool {
			id := fmt.Sprint(n, "x", turn)
			return w.do(turn, paid(id, "usd"), &w.cards) && w.do(turn+1, refunded(id, 1_000, "usd"), &w.refunds)
		})
		w.keep(n, func(turn int) bool { return w.do(turn, entered(fmt.Sprint("INV-", n, "-", turn)), &w.entries) })
	}
	return w
}

// pace is how long a client rests between two things, so that there is room for all kinds.
const pace = 20 * time.Millisecond

// keep has a client do something again and again.
func (w *traffic) keep(n int, act func(turn int) bool) {
	w.clients.Go(func() {
		for turn := n; ; turn++ {
			select {
			case <-w.stop:
				return
			case <-time.After(pace):
				if !act(turn) {
					return
				}
			}
		}
	})
}

func (w *traffic) buy(n int, buyer *ecdsa.PrivateKey) bool {
	pay, key := w.payment(w.t, buyer)
	if !w.do(n, pay, nil) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.payments = append(w.payments, key)
	return true
}

// do sends one thing, to one instance after the other, until it is answered with 200. Nothing else is an answer, but for
// what the loss of an instance explains.
func (w *traffic) do(turn int, send send, count *int) bool {
	failures := 0
	defer func() { w.repeating.Add(int64(-min(failures, 1))) }()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(again) {
		explained := w.away.Load()
		got, err := send(w.instance(turn + failures))
		if err == nil && got.status == http.StatusOK {
			w.mu.Lock()
			defer w.mu.Unlock()
			if count != nil {
				*count++
			}
			return true
		}
		if failures++; failures == 1 {
			w.repeating.Add(1)
		}
		explained = explained || w.away.Load()
		if !assert.True(w.t, explained && (err != nil || got.status == http.StatusServiceUnavailable), "%v %+v", err, got) {
			return false
		}
		w.mu.Lock()
		w.turned++
		w.mu.Unlock()
	}
	return assert.Fail(w.t, "something was not answered")
}

func (w *traffic) instance(turn int) *instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.instances[turn%len(w.instances)]
}

// add sends traffic to one more instance.
func (w *traffic) add(i *instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.instances = append(w.instances, i)
}

// await waits until so much more of each kind was answered.
func (w *traffic) await(more int) {
	w.t.Helper()
	least := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return min(len(w.payments), w.cards, w.refunds, w.entries)
	}
	before := least()
	require.Eventually(w.t, func() bool { return least() >= before+more || w.t.Failed() }, patience, again)
	require.False(w.t, w.t.Failed())
}

// lose kills an instance under traffic, and starts it again when the others have been alone for a while.
func (w *traffic) lose(i *instance) {
	w.t.Helper()
	w.away.Store(true)
	i.Kill()
	w.await(3)
	i.launch()
	i.ready()
	require.Eventually(w.t, func() bool { return w.repeating.Load() == 0 }, patience, time.Millisecond)
	w.away.Store(false)
}

// end ends all clients when what they do is answered.
func (w *traffic) end() {
	close(w.stop)
	w.clients.Wait()
}
