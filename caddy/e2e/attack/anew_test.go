package attack

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// requireEachBuysOnce has buyers with an official client sign anew until they get a 200, and requires that each was charged
// once, by the transaction that the 200 names, and was never asked to sign another.
func (s *shop) requireEachBuysOnce(client node.Buyer, url string, count int) {
	s.Helper()
	var purchases []node.Purchase
	for range count {
		purchases = append(purchases, node.Purchase{URL: url, Key: s.buyer(), Client: client})
	}
	for n, bought := range node.Retry(s, purchases, patience) {
		charges := s.charges(s.payee, purchases[n].Key)
		assert.Len(s, charges, 1, "buyer %d was charged %d times for one purchase: %v", n, len(charges), bought.Answers)
		if assert.Equal(s, http.StatusOK, bought.Status, bought.Body) && assert.NotEmpty(s, charges) {
			assert.Equal(s, charges[0], bought.Payment.Transaction, "the 200 names the charge")
		}
		for i, status := range bought.Answers {
			assert.NotEqual(s, http.StatusPaymentRequired, status, "buyer %d is asked to sign again: %s", n, bought.Texts[i])
		}
	}
}

// A stranger sees each buyer's first payment on its way and broadcasts it before the shop gets it.
func TestRetryingClientChargedOnceIfFrontRun(t *testing.T) {
	t.Parallel()
	const buyers = 3
	m := openMarket(t, buyers)
	facilitator := m.facilitator()
	s := openShop(m, m.payee(), unlimited, rail{"base-sepolia", m.chain.URL, []string{facilitator}})
	var seen sync.Map
	between := m.proxy(s.url, func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		payload, err := base64.StdEncoding.DecodeString(r.Header.Get("PAYMENT-SIGNATURE"))
		assert.NoError(t, err)
		if p := readPayment(payload); p.Nonce != "" {
			if _, again := seen.LoadOrStore(common.HexToAddress(p.From), true); !again {
				_, err := m.settle(p)
				assert.NoError(t, err)
			}
		}
		return false
	})
	s.requireEachBuysOnce(node.BuyerV2, between+"/v1/sponsor", buyers)
}

// The facilitator settles each buyer's payment while it verifies it, and refuses it: when it is in a block, or before.
func TestRetryingClientChargedOnceByRogueFacilitator(t *testing.T) {
	for name, c := range map[string]struct {
		wait   bool
		client node.Buyer
	}{"when it is in a block": {true, node.BuyerV2}, "before it is in a block": {false, node.BuyerV1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab.RequireNode(t)
			const buyers = 2
			m := openMarket(t, buyers)
			rogue := m.rogue("invalid_exact_evm_transaction_simulation_failed", c.wait)
			s := openShop(m, m.payee(), unlimited, rail{"base-sepolia", m.chain.URL, []string{rogue}})
			s.requireEachBuysOnce(c.client, s.url+"/v1/sponsor", buyers)
		})
	}
}

// till is a facilitator whose chain refuses the payments of some for a while, as one does that is congested: nobody knows
// whether they were made.
type till struct {
	*payoffertest.Facilitator
	mu   sync.Mutex
	held map[common.Address]bool
}

func (m *market) till() *till {
	m.Helper()
	l := &till{Facilitator: payoffertest.NewFacilitator(m), held: map[common.Address]bool{}}
	l.OnBroadcast(func(p payoffertest.Settlement) (string, error) {
		l.mu.Lock()
		held := l.held[common.HexToAddress(p.From)]
		l.mu.Unlock()
		if held {
			return "", errReverted
		}
		return m.settle(p)
	})
	return l
}

// hold begins to hold the payments of somebody, or ends it.
func (t *till) hold(p payment, hold bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[p.From] = hold
}

// await returns when a payment is on the chain.
func (s *shop) await(p payment) (transaction common.Hash) {
	s.Helper()
	s.eventually("the payment is made", func() bool {
		charges := s.charges(s.payee, p.buyer)
		if len(charges) > 0 {
			transaction = charges[0]
		}
		return len(charges) > 0
	})
	return transaction
}

// A buyer pays and is told that nobody knows. The client signs anew, and again; the first payment is made in the meantime. That
// is the one charge, whatever is sent after it, until the buyer asks for another thing by name.
func TestUnknownOutcomeChargedOnce(t *testing.T) {
	t.Parallel()
	m := openMarket(t, len(transports))
	till := m.till()
	openShop(m, m.payee(), unlimited, rail{"base-sepolia", m.chain.URL, []string{till.URL()}}).byEach(func(s *shop, name string, send transport) {
		t := s.T
		ask := func(p payment) answer {
			a := send(t.Context(), s, p)
			require.NoError(t, a.err)
			return a
		}
		first := s.sign(s.buyer())
		till.hold(first, true)
		unknown := ask(first)
		require.Equal(t, http.StatusServiceUnavailable, unknown.status, unknown.text)
		require.True(t, unknown.again, unknown.text)
		require.Equal(t, first.nonce(), unknown.intent)

		second := s.sign(first.buyer)
		requireConflict(t, "signed anew", ask(second), first)
		requireConflict(t, "sent again", ask(second), first)

		till.hold(first, false)
		transaction := s.await(first)
		s.requireToldOf(first, transaction, func() answer { return ask(second) })
		third := ask(s.sign(first.buyer))
		require.Equal(t, http.StatusOK, third.status, third.text)
		require.Equal(t, transaction, third.transaction)
		require.True(t, third.names(first), third.text)
		require.Len(t, s.charges(s.payee, first.buyer), 1, "charged twice for one purchase")
		require.Zero(t, till.Settled(second.nonce()))

		if name == "HTTP version 1" || strings.HasPrefix(name, "MPP") {
			return // they know no identifiers
		}
		named := s.sign(first.buyer)
		named.id = rand.Text()
		other := ask(named)
		require.Equal(t, http.StatusOK, other.status, other.text)
		require.NotEqual(t, transaction, other.transaction)
		require.True(t, other.names(named), other.text)
		require.Len(t, s.charges(s.payee, first.buyer), 2)
	})
}

// requireToldOf asks until the answer is a 200 that names a payment and its transaction. Before that, it stands in the way.
func (s *shop) requireToldOf(p payment, transaction common.Hash, ask func() answer) {
	s.Helper()
	var last answer
	s.eventually("the buyer is told of the charge", func() bool {
		last = ask()
		if last.status != http.StatusOK {
			requireConflict(s.T, "until it is decided", last, p)
		}
		return last.status == http.StatusOK
	})
	require.Equal(s, transaction, last.transaction, last.text)
	require.True(s, last.names(p), "the answer does not say which payment was charged: %s", last.text)
}

// Whoever has the answer and pays again wants another one.
func TestKnownOutcomeAllowsSecondPurchase(t *testing.T) {
	t.Parallel()
	m := openMarket(t, len(transports))
	openShop(m, m.payee(), unlimited, rail{"base-sepolia", m.chain.URL, []string{m.till().URL()}}).byEach(func(s *shop, _ string, send transport) {
		buyer := s.buyer()
		told := map[common.Hash]bool{}
		for range 2 {
			p := s.sign(buyer)
			a := send(s.Context(), s, p)
			require.NoError(s, a.err)
			require.Equal(s, http.StatusOK, a.status, a.text)
			require.True(s, a.names(p), "the answer does not say which payment was charged: %s", a.text)
			told[a.transaction] = true
		}
		charges := s.charges(s.payee, buyer)
		require.Len(s, charges, 2)
		require.Equal(s, map[common.Hash]bool{charges[0]: true, charges[1]: true}, told)
	})
}
