package soak

import (
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/mpp"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// payments are those of a round, half of them in either dialect.
const payments = 4

// payment is a signed one, of either dialect.
type payment struct {
	chain.Authorization
	header http.Header
	// transaction is that of the answer 200.
	transaction string
}

// x402 signs a payment as a client of x402 version 2 does.
func (s *shop) x402(buyer *ecdsa.PrivateKey) *payment {
	s.Helper()
	a := chain.NewAuthorization(s, chain.Address(buyer), s.payee, price)
	return &payment{Authorization: a, header: chain.Payment(s, a.Payload(a.Sign(s, buyer)))}
}

// mpp asks for a challenge of the Payment scheme and signs the payment that answers it.
func (s *shop) mpp(buyer *ecdsa.PrivateKey) *payment {
	s.Helper()
	var challenge mpp.Challenge
	server.Eventually(s, "the shop challenges", func() bool {
		answer, err := s.client.Post(s.url+"/v1/sponsor", "", nil)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		challenge = mpp.Challenged(s, answer.Header, s.chain.Network)
		return challenge != nil
	})
	a := chain.NewAuthorization(s, chain.Address(buyer), s.payee, price)
	a.Nonce = challenge.Nonce()
	return &payment{Authorization: a, header: http.Header{"Authorization": {mpp.Authorization(s, challenge.Credential(a, a.Sign(s, buyer)))}}}
}

// purchases are payments that are made at the same time.
type purchases struct {
	payments []*payment
	answered sync.WaitGroup // once each
	paid     sync.WaitGroup
}

// buy begins a payment of each buyer, of whom none has paid before: one who was in doubt and signs anew would be told of the
// payment that was in doubt. It sends money to the next ones.
func (s *shop) buy() *purchases {
	s.Helper()
	p := &purchases{}
	for n, buyer := range s.buyers {
		server.Eventually(s, "the buyer has money", func() bool { return s.chain.BalanceOf(s, chain.Address(buyer)).Sign() > 0 })
		sign := s.x402
		if n%2 == 1 {
			sign = s.mpp
		}
		made := sign(buyer)
		p.payments = append(p.payments, made)
		p.answered.Add(1)
		p.paid.Go(func() { s.pay(made, sync.OnceFunc(p.answered.Done)) })
	}
	s.buyers = s.market.newBuyers(s, payments)
	return p
}

// pay sends a payment until it is answered 200.
func (s *shop) pay(p *payment, answered func()) {
	defer answered()
	for deadline := time.Now().Add(patience); ; time.Sleep(again) {
		caused := s.now.Load()
		a, err := server.Do(s.client, http.MethodPost, s.url+"/v1/sponsor", "", p.header)
		if err == nil {
			s.answered("a payment", a.Status, http.StatusOK, a.Body, caused, facilitators, database)
			answered()
		}
		switch {
		case err == nil && a.Status != http.StatusServiceUnavailable:
			var paid struct{ Transaction string }
			if err := json.Unmarshal([]byte(a.Body), &paid); err != nil {
				s.found.Add("an answer to a payment", err.Error())
			}
			p.transaction = paid.Transaction
			return
		case time.Now().After(deadline):
			s.found.Add("a payment is never made", a.Body)
			return
		}
	}
}

func (p *purchases) awaitAnswers() { p.answered.Wait() }

// awaitPaid returns the payments when they are made.
func (p *purchases) awaitPaid() []*payment {
	p.paid.Wait()
	return p.payments
}

// market is the chain as all facilitators see it, which know of each other's transactions before a block has them.
type market struct {
	chain *chain.Chain
	mu    sync.Mutex
	sent  map[string]bool
}

// broadcaster is what a facilitator does: as the reference one, it tries a call before it pays for it. It does not wait for
// the block, of which there is one a second.
func (m *market) broadcaster(t *testing.T) func(payoffertest.Settlement) (string, error) {
	return func(s payoffertest.Settlement) (string, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.sent[s.Nonce] {
			return "", errors.New("the authorization is used")
		}
		hash, err := m.chain.Broadcast(t, s)
		m.sent[s.Nonce] = err == nil
		return hash.Hex(), err
	}
}

// send broadcasts a call of the token. While a block is made, the sender's next nonce is not sure.
func (m *market) send(call []byte) (hash common.Hash, err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if hash, err = m.chain.Send(m.chain.USDC, call); err == nil {
			break
		}
	}
	return hash, err
}

// newBuyers are accounts that have the price with one of the next blocks.
func (m *market) newBuyers(t testing.TB, count int) (keys []*ecdsa.PrivateKey) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for range count {
		key := chain.NewKey(t)
		_, err := m.send(chain.NewAuthorization(t, chain.Wallet, chain.Address(key), price).Call(t, []byte("whatever the wallet takes")))
		require.NoError(t, err)
		keys = append(keys, key)
	}
	return keys
}
