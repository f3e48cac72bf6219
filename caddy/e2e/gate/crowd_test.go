package gate

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// A wallet has the money of one payment and signs a hundred. Until one is charged, its payments run the application one
// after the other. One is charged.
func TestWalletPaymentsRunApplicationOneByOne(t *testing.T) {
	t.Parallel()
	const crowd = 100
	c := chain.Start(t)
	payee := chain.NewAddress(t)
	s := openShop(t, `
http://chained.localhost:{PORT} {
	import offer chained chained.localhost {CHAINPAYEE} {RPC} 100
}
http://site.localhost:{PORT} {
	pay_offer_gate {
		offer chained
	}
	reverse_proxy {APP}
}
`, "{CHAINPAYEE}", payee.Hex(), "{RPC}", c.URL)
	s.facilitator.OnBroadcast(func(asked payoffertest.Settlement) (string, error) {
		hash, err := c.Broadcast(t, asked)
		return hash.Hex(), err
	})
	key := c.NewBuyer(t) // with 100 USDC
	for _, status := range []int{http.StatusNotFound, http.StatusOK} {
		target := fmt.Sprint("/", status)
		url := s.url("site", target)
		var sent sync.WaitGroup // the requests that the server has not got
		sent.Add(crowd)
		var running, most, charged atomic.Int64
		s.app.on(target, func(w http.ResponseWriter, r *http.Request) {
			sent.Wait()
			if len(c.TransfersTo(t, payee)) > 0 {
				charged.Add(1)
			} else {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
			}
			answers(status)(w, r)
		})
		payments := make([]*payment, crowd)
		first := s.sign(url, func(p *payment) { p.key = key })
		for n := range payments {
			p := *first
			p.Nonce = common.BigToHash(big.NewInt(rand.Int64()))
			p.signature = p.Sign(t, key)
			payments[n] = &p
		}
		answered := make([]answer, crowd)
		var work sync.WaitGroup
		for n, p := range payments {
			work.Go(func() {
				written := sync.OnceFunc(sent.Done)
				defer written()
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { written() }})
				answered[n] = s.send(ctx, clients["HTTP/1.1"], http.MethodGet, url, s.v2(p))
			})
		}
		work.Wait()
		counts := map[int]int{}
		for _, a := range answered {
			counts[a.Status]++
		}
		t.Logf("answers: %v, %d runs, %d of them after the charge", counts, s.app.runs(target), charged.Load())
		require.EqualValues(t, 1, most.Load(), "runs at once before the charge")
		if status == http.StatusNotFound {
			require.Equal(t, map[int]int{404: crowd}, counts)
			require.Empty(t, c.TransfersTo(t, payee))
			continue
		}
		require.Len(t, c.TransfersTo(t, payee), 1)
		require.EqualValues(t, 1, s.app.runs(target)-int(charged.Load()), "runs before the charge")
		for _, a := range answered {
			require.True(t, a.Status == http.StatusOK && a.Body == secret || a.Header.Get("Retry-After") != "", "%d %s", a.Status, a.Body)
		}
	}
}
