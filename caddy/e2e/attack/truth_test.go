package attack

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// follow sends a payment again until done, and returns every answer.
func (s *shop) follow(p payment, done func(answer) bool) []answer { return s.followBy(byHTTP, p, done) }

// followBy is follow by another transport. It may run beside the test's goroutine.
func (s *shop) followBy(send transport, p payment, done func(answer) bool) (answers []answer) {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Second) {
		answers = append(answers, send(s.Context(), s, p))
		if last := answers[len(answers)-1]; last.err != nil || done(last) || time.Now().After(deadline) {
			return answers
		}
	}
}

// decided is any answer that does not ask for patience.
func decided(a answer) bool { return a.status != http.StatusServiceUnavailable }

// A fate is what became of an authorization before the shop first saw it, and where its payment is then sent.
type fate struct {
	name string
	// befall makes it happen and returns the payment, and the transaction that paid for it, if any did.
	befall func() (*shop, payment, common.Hash)
}

// fates are those of the payments to two shops that share an account, by a facilitator that settles nothing twice.
func fates(s, other *shop) []fate {
	// The quotes of all shops are alike; a challenge is that of the shop which was asked.
	pay := func(asked, at *shop) (payment, common.Hash) {
		p := asked.sign(at.buyer())
		answers := at.follow(p, decided)
		last := answers[len(answers)-1]
		require.Equal(at, http.StatusOK, last.status, last.text)
		return p, last.transaction
	}
	// The shop's rows begin before it was signed, by whatever clock.
	sign := func() payment {
		return s.sign(s.buyer(), func(a *chain.Authorization) { a.ValidBefore += int64((2 * time.Minute).Seconds()) })
	}
	spend := func(change func(*chain.Authorization)) payment {
		p := sign()
		spent := p
		change(&spent.Authorization)
		s.byStranger(spent.Call(s, spent.Sign(s, p.buyer)))
		return p
	}
	return []fate{
		{"a stranger had broadcast it", func() (*shop, payment, common.Hash) {
			p := s.sign(s.buyer())
			return s, p, s.byStranger(s.call(p))
		}},
		{"another deployment had taken it", func() (*shop, payment, common.Hash) {
			p, transaction := pay(s, other)
			return s, p, transaction
		}},
		{"the ledger was restored from a copy", func() (*shop, payment, common.Hash) {
			other.close()
			copied := other.read()
			other.open()
			p, transaction := pay(other, other)
			other.close()
			other.restore(copied)
			other.open()
			return other, p, transaction
		}},
		{"its payer had canceled it", func() (*shop, payment, common.Hash) {
			p := sign()
			s.byStranger(p.Cancel(s, p.buyer))
			return s, p, common.Hash{}
		}},
		{"its payer had spent it on somebody else", func() (*shop, payment, common.Hash) {
			return s, spend(func(a *chain.Authorization) { a.To = s.market.payee() }), common.Hash{}
		}},
		{"its payer had spent it on less", func() (*shop, payment, common.Hash) {
			return s, spend(func(a *chain.Authorization) { a.Value = 1 }), common.Hash{}
		}},
	}
}

// read is the ledger of a shop that is closed.
func (s *shop) read() []byte {
	s.Helper()
	data, err := os.ReadFile(s.path)
	require.NoError(s, err)
	return data
}

// restore puts a copy of the ledger in its place.
func (s *shop) restore(data []byte) {
	s.Helper()
	for _, suffix := range []string{"-wal", "-shm"} {
		require.NoError(s, os.RemoveAll(s.path+suffix))
	}
	require.NoError(s, os.WriteFile(s.path, data, 0o600))
}

// befallen lets each fate befall a payment, and follows all payments to their ends, by every transport.
func befallen(t *testing.T) (all map[string][]answer, paid map[string]common.Hash) {
	m := openMarket(t, 6)
	facilitator := m.facilitator()
	payee := m.payee()
	s := openShop(m, payee, unlimited, rail{"base-sepolia", m.chain.URL, []string{facilitator}})
	other := openShop(m, payee, unlimited, rail{"base-sepolia", m.chain.URL, []string{facilitator}})
	all, paid = map[string][]answer{}, map[string]common.Hash{}
	var mu sync.Mutex
	var work sync.WaitGroup
	for _, f := range fates(s, other) {
		at, p, transaction := f.befall()
		for by, send := range transports {
			name := f.name + ", by " + by
			paid[name] = transaction
			work.Go(func() {
				answers := at.followBy(send, p, decided)
				mu.Lock()
				defer mu.Unlock()
				all[name] = answers
			})
		}
	}
	work.Wait()
	return all, paid
}

// What the chain shows, the buyer is told: nobody whose authorization has moved money to the shop is asked to sign another, or
// told to have kept the money, whoever broadcast it.
func TestChargedPaymentIsNeverDenied(t *testing.T) {
	t.Parallel()
	all, paid := befallen(t)
	for name, answers := range all {
		requireTruth(t, name, answers, paid[name])
	}
}

// requireTruth requires what a shop that reads the chain may say of a used authorization: patience, and then 200 with the
// transaction that made the payment, or 402 that says that the authorization was spent elsewhere.
func requireTruth(t *testing.T, name string, answers []answer, paid common.Hash) {
	t.Helper()
	last := answers[len(answers)-1]
	for _, a := range answers {
		assert.NoError(t, a.err, name)
		if paid != (common.Hash{}) {
			assert.NotEqual(t, http.StatusPaymentRequired, a.status, "%s: the buyer is asked to sign again: %s", name, a.text)
			assert.False(t, a.deniesCharge(), "%s: the charge is denied: %d %s", name, a.status, a.text)
		}
		if a.status == http.StatusServiceUnavailable {
			assert.True(t, a.again, "%s: the buyer is not told when to ask again: %s", name, a.text)
		}
	}
	if paid != (common.Hash{}) {
		assert.Equal(t, http.StatusOK, last.status, "%s: %s", name, last.text)
		assert.Equal(t, paid, last.transaction, name)
		return
	}
	assert.Equal(t, http.StatusPaymentRequired, last.status, "%s: %s", name, last.text)
	assert.Regexp(t, `(?i)elsewhere|cancel`, last.text, name)
}

// A second deployment starts, with an empty ledger, a moment after somebody has paid the first one. What came before it began to
// read is in none of its rows.
func TestNewServerNeverDeniesEarlierCharge(t *testing.T) {
	t.Parallel()
	m := openMarket(t, 1)
	facilitator := m.facilitator()
	here := rail{"base-sepolia", m.chain.URL, []string{facilitator}}
	first := openShop(m, m.payee(), unlimited, here)
	p := first.sign(first.buyer())
	paid := first.follow(p, decided)
	require.Equal(t, http.StatusOK, paid[len(paid)-1].status, paid[len(paid)-1].text)

	second := openShop(m, first.payee, unlimited, here)
	m.byStranger(chain.NewAuthorization(t, chain.Wallet, m.payee(), 1).Call(t, []byte("whatever the wallet takes"))) // and the chain goes on
	asked := 0
	answers := second.follow(p, func(a answer) bool {
		asked++
		return decided(a) || asked > 12
	})
	for _, a := range answers {
		require.NoError(t, a.err)
		require.NotEqual(t, http.StatusPaymentRequired, a.status, a.text)
		require.False(t, a.deniesCharge(), "%d %s", a.status, a.text)
	}
}

// requireConflict requires the answer to a payment that is not sent because of one that is not decided: final, with its name.
func requireConflict(t *testing.T, name string, a answer, open payment) {
	t.Helper()
	require.NoError(t, a.err)
	require.Equal(t, http.StatusConflict, a.status, "%s: %s", name, a.text)
	require.False(t, a.again, "%s: the buyer is asked to send the second payment again: %s", name, a.text)
	require.Equal(t, open.nonce(), strings.ToLower(a.intent), "%s: %s", name, a.text)
}

// rogue is a facilitator that settles whatever it is asked to verify, and refuses it for a reason, when it is in a block if it
// waits for that.
func (m *market) rogue(reason string, wait bool) string {
	facilitator := payoffertest.NewFacilitator(m)
	var work sync.WaitGroup
	m.Cleanup(work.Wait)
	return m.proxy(facilitator.URL(), func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if r.URL.Path != payoffertest.CallVerify {
			return false
		}
		p := readPayment(body)
		settled := make(chan struct{})
		work.Go(func() {
			_, _ = m.settle(p) // what is unfit for the chain is refused truly
			close(settled)
		})
		if wait {
			<-settled
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(m.encode(object{"isValid": false, "invalidReason": reason, "payer": p.From}))
		return true
	})
}
