// Package crash proves that a killed server loses no payment and makes none twice: the built command dies at any moment
// and at every named point of its write path, while a simulated chain and a facilitator that broadcasts live on.
package crash

import (
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
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

// With FULL=1 go test needs -timeout 1h.
func TestKilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		count := cases.EndToEnd(15, 60, 300)
		m := openMarket(t, count*fresh, 1) // each buys once
		killAtRandom(t, m, openShop(t, m), count)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		count := cases.EndToEnd(3, 15, 60)
		m := openMarket(t, count*fresh, 1)
		killAtRandom(t, m, openShopAt(t, m, postgres.Start(t).DSN(t)), count)
	})
}

func killAtRandom(t *testing.T, m *market, s *shop, count int) {
	t.Helper()
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
		got := lab.Must(p.ask(s.client, s.url))(t)
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

// broadcast is how many of the shop's payments the facilitator has broadcast.
func (s *shop) broadcast() (total int) {
	for _, p := range s.payments {
		total += s.market.facilitator.Settled(p.Nonce.Hex())
	}
	for _, p := range s.purchases {
		total += len(s.charged(p))
	}
	return total
}

// recovered reports whether the server has nothing open and a row for each payment that was broadcast.
func (s *shop) recovered() bool {
	type count struct{ Count int }
	var report struct {
		Rails []struct {
			Rail                      string
			Seen, Confirmed, Settling count
		}
	}
	a, err := server.Do(s.client, http.MethodGet, s.url+"/v1/received", "", nil)
	if err != nil || a.Status != http.StatusOK || json.Unmarshal([]byte(a.Body), &report) != nil {
		return false
	}
	for _, rail := range report.Rails {
		if rail.Rail == "usdc" {
			return rail.Settling.Count == 0 && rail.Seen.Count+rail.Confirmed.Count == s.broadcast()
		}
	}
	return false
}

// requireRecovered waits until the server has put the ledger in order by itself: no buyer comes back in between.
func (s *shop) requireRecovered(t *testing.T) {
	t.Helper()
	ticker := time.NewTicker(again)
	defer ticker.Stop()
	for deadline := time.After(patience); !s.recovered(); {
		select {
		case <-s.Ended():
			t.Fatal("the server ended by itself")
		case <-deadline:
			t.Fatalf("a payment that was broadcast has no row, or is open, %v after the crash", patience)
		case <-ticker.C:
		}
	}
}

// at is the environment of a server that dies at the hit of a point.
func at(point failpoint.Point, hit int) string {
	return fmt.Sprintf("%s=%s:%d", failpoint.Variable, point, hit)
}

func TestKilledAtEachFailpoint(t *testing.T) {
	t.Parallel()
	points := slices.DeleteFunc(failpoint.Points(), func(p failpoint.Point) bool {
		return strings.HasPrefix(string(p), "buy.") // those of a buyer, which package buyer has
	})
	m := openMarket(t, len(points), purse)
	var deaths, payments atomic.Int64
	t.Run("at", func(t *testing.T) {
		for i, point := range points {
			t.Run(string(point), func(t *testing.T) {
				t.Parallel()
				s := openShop(t, m)
				s.turn = i
				s.dieAtEachHit(t, point, m.buyers[i])
				s.requireSound(t)
				deaths.Add(int64(s.deaths))
				payments.Add(int64(len(s.payments)))
			})
		}
	})
	t.Logf("points=%d kills=%d payments=%d", len(points), deaths.Load(), payments.Load())
}

// dieAtEachHit kills the server at the first hit of a point, then at the second, until a payment is settled without so
// many hits; only the first hits where not everything is run.
func (s *shop) dieAtEachHit(t *testing.T, point failpoint.Point, buyer *ecdsa.PrivateKey) {
	t.Helper()
	most := cases.EndToEnd(2, purse, purse)
	for hit := 1; hit <= most; hit++ {
		resolves := strings.HasPrefix(string(point), "resolve.")
		if resolves {
			s.turn = 0 // a gate opens when the transfer is observed, before the payment is resolved
		}
		p := s.payment(t, buyer)
		if resolves {
			s.leaveOpen(t, p)
		}
		s.Launch(t, at(point, hit))
		survived := s.survives(t, p)
		if survived {
			s.crash(t)
		} else {
			s.died(t)
		}
		s.start(t)
		s.requireRecovered(t)
		require.True(t, p.settle(t, s.client, s.url))
		require.True(t, p.settle(t, s.client, s.url), "the stored answer")
		s.crash(t)
		if survived {
			require.Greater(t, hit, 1, "the point is never hit")
			return
		}
	}
	require.Less(t, most, purse, "the point is hit without end")
}

// leaveOpen sends a payment to a server that dies when the facilitator has answered.
func (s *shop) leaveOpen(t *testing.T, p *payment) {
	t.Helper()
	s.Launch(t, at(failpoint.SettleAfter, 1))
	require.False(t, s.survives(t, p))
	s.died(t)
}

// survives sends a payment until it is answered for good, and reports false if the server ends before.
func (s *shop) survives(t *testing.T, p *payment) bool {
	t.Helper()
	if !s.Answers(t) {
		return false
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(again) {
		got, err := p.send(s.client, s.url)
		if err != nil {
			<-s.Ended()
			return false
		}
		if got.status != http.StatusServiceUnavailable {
			return true
		}
		require.True(t, time.Now().Before(deadline), "no answer: %+v", got)
	}
}

func TestReleasedBinaryHasNoFailpoints(t *testing.T) {
	code := lab.Must(os.ReadFile(server.Released(t)))(t)
	require.Contains(t, string(code), "/v1/sponsor")
	require.False(t, strings.Contains(string(code), failpoint.Variable), "the command can be told to die")
}
