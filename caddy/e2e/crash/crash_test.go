// Package crash proves that a killed server loses no payment and makes none twice: the built command dies at any moment
// and at every named point of its write path, while a simulated chain and a facilitator that broadcasts live on.
package crash

import (
	"crypto/ecdsa"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

const (
	// fresh is how many payments are begun before each kill.
	fresh = 2
	// waiting is how many buyers may be at it at once.
	waiting = 12
	// longest bounds the time between begin and kill. A payment takes until the next block, up to a second.
	longest = 1500 * time.Millisecond
)

// moment is a random time until the next kill. Most are short: the writes are soon after the begin.
func moment() time.Duration {
	x := rand.Float64()
	return time.Duration(x * x * x * float64(longest))
}

func TestKilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	count := cases.EndToEnd(15, 60, 1000) // for the last of which go test needs -timeout 2h
	m := openMarket(t, count*fresh, 1)    // each buys once
	s := openShop(t, m)
	s.start(t)
	slots := make(chan struct{}, waiting)
	var work sync.WaitGroup
	defer work.Wait()
	var under atomic.Int64 // payments without an answer
	struck := int64(0)     // the same, summed over all kills
	for kill := range count {
		for _, buyer := range m.buyers[kill*fresh : (kill+1)*fresh] {
			visit := s.customer(t, buyer)
			slots <- struct{}{}
			work.Go(func() {
				under.Add(1)
				visit()
				under.Add(-1)
				<-slots
			})
		}
		time.Sleep(moment())
		struck += under.Load()
		s.crash(t)
		s.Launch(t)
		if rand.IntN(4) > 0 { // else the next kill may come while it starts
			require.True(t, s.Answers(t), "the server ended by itself")
		}
		require.False(t, t.Failed(), "a payment failed")
	}
	require.True(t, s.Answers(t), "the server ended by itself")
	work.Wait()
	s.requireRecovered(t)
	s.resend(t)
	s.crash(t)
	t.Logf("%d payments were under way when the server was killed", struck)
	s.requireSound(t)
}

// customer is a buyer with a purchase to be made: half of them have a client that signs anew, and the others one that
// sends the same payment.
func (s *shop) customer(t *testing.T, buyer *ecdsa.PrivateKey) (visit func()) {
	t.Helper()
	if rand.IntN(2) == 0 {
		p := s.purchase(buyer)
		return func() { s.insist(t, p) }
	}
	p := s.payment(t, buyer)
	return func() { s.visit(t, p) }
}

// visit is what a buyer does who sends the same payment: half of them until it is answered, and they ask once more; half
// send it once and never come back.
func (s *shop) visit(t *testing.T, p *payment) {
	if rand.IntN(2) == 0 {
		for range 2 {
			if !p.settle(t, s.client, s.url) {
				break
			}
		}
		return
	}
	if got, err := p.send(s.client, s.url); err == nil && got.status == http.StatusOK {
		p.keep(t, got)
	}
}

// resend asks for the answer to every payment that was made. One that was never taken may have expired; it is no payment then.
func (s *shop) resend(t *testing.T) {
	t.Helper()
	var made []*payment
	for _, p := range s.payments {
		got, err := p.ask(s.client, s.url)
		require.NoError(t, err)
		if p.untaken(got) && s.market.facilitator.Settled(p.Nonce.Hex()) == 0 {
			require.Less(t, p.ValidBefore, time.Now().Add(time.Minute).Unix(), got.body)
			continue
		}
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.True(t, p.keep(t, got))
		made = append(made, p)
	}
	for _, p := range s.purchases {
		made = append(made, s.requireBought(t, p))
	}
	s.payments, s.purchases = made, nil
}
