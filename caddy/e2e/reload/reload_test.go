// Package reload proves that a reload of the configuration interrupts nothing:
// the built binary is reloaded through the admin API while people, programs and
// payers use every path of its offer.
package reload

import (
	"crypto/ecdsa"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// descriptions are those of the changed configurations, in turn.
var descriptions = []string{"First words.", "Other words."}

// slow is how long the facilitator takes at most while traffic goes on.
const slow = time.Second

// While configurations change, no request gets another answer than the offer's, whatever it asks for; each payment is
// charged once; what the offer has learnt of its clients and of the world stays known; and a reload leaves nothing behind.
func TestReloadsUnderTrafficInterruptNothing(t *testing.T) {
	t.Parallel()
	const warm, times = 5, 30 // reloads before the resources are counted, and of either kind after that
	s := openShop(t, "")
	limited, buyers := s.exhaust(), s.newBuyers(times)
	s.awaitHealth()
	before, found := s.state(limited).withoutPlace(), newFindings()
	crowd := traffic{shop: s, requests: s.requests(), states: before.shop, found: found}
	var transactions []string
	turn := func(config string, pays bool) {
		n := int(crowd.reload.Add(1))
		if pays {
			paid := s.payDuring(func() { s.reload(config) }, len(transactions), buyers[len(transactions)])
			transactions = append(transactions, paid.transaction())
			if paid.status != http.StatusOK {
				found.add(fmt.Sprintf("a payment: status %d", paid.status), fmt.Sprintf("during reload %d: %s", n, paid.body))
			}
		} else {
			s.reload(config)
		}
		found.compare(n, before, s.state(limited).withoutPlace())
		crowd.awaitAnswers()
	}

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
	// Idle connections to upstreams come and go; what each reload leaves behind would stand here 60 times.
	var atLast resources
	s.eventually(fmt.Sprintf("goroutines and files are back at about %+v", atFirst), func() bool {
		atLast = s.resources()
		return atLast.goroutines < atFirst.goroutines+times && atLast.files < atFirst.files+times
	})
	t.Logf("%d answers; %+v after %d reloads, %+v after %d", crowd.answers.Load(), atFirst, warm, atLast, warm+2*times)
}

// payDuring pays while a reload happens: the facilitator is asked to settle before it, and has done so after it, if that
// does not take too long. The client's address is its own, as nobody's attempts to pay are without limit.
func (s *shop) payDuring(reload func(), number int, buyer *ecdsa.PrivateKey) answer {
	s.Helper()
	client := newClient(fmt.Sprintf("127.0.1.%d", 1+number), number%2 == 0)
	defer client.CloseIdleConnections()
	payment, paid := s.sign(buyer), make(chan answer, 1)
	settled, release := len(s.facilitator.Calls(payoffertest.CallSettle)), s.hold()
	go func() { paid <- s.pay(client, payment) }()
	s.eventually("the facilitator is asked to settle", func() bool {
		return len(paid) > 0 || len(s.facilitator.Calls(payoffertest.CallSettle)) > settled
	})
	late := time.AfterFunc(slow, release)
	reload()
	if late.Stop() {
		release()
	}
	return <-paid
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

// A settlement goes on while the configuration is replaced, and the new one does not wait for it: the facilitator takes
// longer than the reload, and might take a minute.
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
