package reload

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// descriptions are those of the changed configurations, in turn.
var descriptions = []string{"First words.", "Other words."}

// slow is how long the facilitator takes at most while traffic goes on: else as long as the reload that happens meanwhile.
const slow = time.Second

// While configurations change, no request gets another answer than the offer's, whatever it asks for; each payment is
// charged once; and what the offer has learnt of its clients and of the world stays known.
func TestReloadsUnderTrafficInterruptNothing(t *testing.T) {
	t.Parallel()
	const warm, times = 5, 30 // reloads before the resources are counted, and of either kind after that
	s := openShop(t, "")
	limited := s.exhaust()
	buyers := s.newBuyers(times)
	s.awaitHealth()
	found, reload := newFindings(), new(atomic.Int64)
	before := s.state(limited)
	crowd := traffic{shop: s, requests: s.requests(), states: withoutPlace(before.shop), found: found, reload: reload}
	var transactions []string
	turn := func(config string, pays bool) {
		n := int(reload.Add(1))
		paid := make(chan answer, 1)
		release := s.hold()
		if pays {
			payment, client := s.sign(buyers[len(transactions)]), newClient(fmt.Sprintf("127.0.1.%d", 1+len(transactions)), n%4 == 0)
			settled := len(s.facilitator.Calls(payoffertest.CallSettle))
			go func() {
				defer client.CloseIdleConnections()
				paid <- s.pay(client, payment)
			}()
			s.eventually("the facilitator is asked to settle", func() bool {
				return len(paid) > 0 || len(s.facilitator.Calls(payoffertest.CallSettle)) > settled
			})
			timer := time.AfterFunc(slow, release)
			s.reload(config)
			if timer.Stop() {
				release()
			}
			a := <-paid
			transactions = append(transactions, a.transaction())
			if a.status != http.StatusOK {
				found.add(fmt.Sprintf("a payment: status %d", a.status), fmt.Sprintf("during reload %d: %s", n, a.body))
			}
		} else {
			release()
			s.reload(config)
		}
		now := s.state(limited)
		now.shop, now.troubled = withoutPlace(now.shop), withoutPlace(now.troubled)
		found.compare(n, before, now)
		crowd.awaitAnswers()
	}
	before.shop, before.troubled = withoutPlace(before.shop), withoutPlace(before.troubled)

	crowd.begin()
	for range warm {
		turn(s.config(descriptions[0], ""), false)
	}
	crowd.end()
	atFirst := s.resources()
	crowd.begin()
	for n := range times {
		turn(s.config(descriptions[0], ""), n%2 == 0)
	}
	for n := range times {
		turn(s.config(descriptions[(n+1)%2], ""), n%2 == 0)
	}
	crowd.end()

	found.report(s)
	s.requireCharged(transactions)
	t.Logf("%d answers", crowd.answers.Load())
	// Idle connections to upstreams come and go; what a reload leaves behind would stand here 60 times.
	var atLast resources
	s.eventually(fmt.Sprintf("goroutines and files are back at %+v", atFirst), func() bool {
		atLast = s.resources()
		return atLast.goroutines < atFirst.goroutines+times && atLast.files < atFirst.files+times
	})
	t.Logf("%+v after %d reloads, %+v after %d", atFirst, warm, atLast, warm+2*times)
}

// Right after a reload in which nothing else happens, all that was known is known.
func TestAReloadKeepsLimitsCircuitsAndHealth(t *testing.T) {
	t.Parallel()
	s := openShop(t, "")
	limited := s.exhaust()
	s.awaitHealth()
	before, found := s.state(limited), newFindings()
	require.Equal(t, http.StatusTooManyRequests, before.limited)
	require.NotEmpty(t, before.bitcoin)
	for n := range 6 {
		s.reload(s.config(descriptions[n/3], "")) // the fourth one changes it
		found.compare(n+1, before, s.state(limited))
	}
	found.report(s)
}

// A settlement goes on while the configuration is replaced, and the new one does not wait for it.
func TestAReloadWaitsForNoSettlement(t *testing.T) {
	t.Parallel()
	s := openShop(t, "")
	var transactions []string
	for n, buyer := range s.newBuyers(2) {
		release := s.hold()
		paid, payment := make(chan answer, 1), s.sign(buyer)
		go func() { paid <- s.pay(loopback, payment) }()
		s.facilitator.Await(payoffertest.CallSettle, n+1)
		loaded, err := s.load(s.config(descriptions[n], ""))
		release()
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, loaded.status, loaded.body)
		a := <-paid
		require.NotEmpty(t, a.transaction(), "%d: %s", a.status, a.body)
		transactions = append(transactions, a.transaction())
	}
	s.requireCharged(transactions)
	require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 2)
}
