package crash

import (
	"crypto/ecdsa"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	// price is what the offers of this package cost, 0.04 USDC in atomic units: little, so that the money of one chain
	// is enough for thousands of payments.
	price = 40_000
	// purse is how many payments a buyer can make who buys more than once.
	purse = 20
)

// market is what a crash of a server does not touch: the chain, the facilitator and the buyers.
type market struct {
	chain       *chain.Chain
	facilitator *payoffertest.Facilitator
	buyers      []*ecdsa.PrivateKey
}

// openMarket starts a chain with so many buyers, who can make so many payments, and a facilitator that broadcasts to it.
func openMarket(t *testing.T, buyers int, payments int64) *market {
	t.Helper()
	m := &market{chain: chain.Start(t), facilitator: payoffertest.NewFacilitator(t)}
	m.facilitator.OnBroadcast(func(s payoffertest.Settlement) (string, error) { return m.broadcast(t, s) })
	for range buyers {
		m.buyers = append(m.buyers, m.newBuyer(t, payments))
	}
	last := chain.Address(m.buyers[buyers-1])
	require.Eventually(t, func() bool { return m.chain.BalanceOf(t, last).Cmp(big.NewInt(payments*price)) == 0 },
		time.Minute, 100*time.Millisecond, "the buyers get no money")
	return m
}

// newBuyer asks for the money of so many payments, which is there with the next block.
func (m *market) newBuyer(t *testing.T, payments int64) *ecdsa.PrivateKey {
	t.Helper()
	key := chain.NewKey(t)
	gift := chain.NewAuthorization(t, chain.Wallet, chain.Address(key), payments*price)
	call := gift.Call(t, []byte("whatever the wallet takes"))
	require.Eventually(t, func() bool {
		_, err := m.chain.Send(m.chain.USDC, call)
		return err == nil // while a block is made, the sender's next nonce is not sure
	}, time.Minute, time.Millisecond)
	return key
}

// broadcast tries a call, as the reference facilitator does, and does not wait for its block: a crash then finds
// payments in every state.
func (m *market) broadcast(t *testing.T, s payoffertest.Settlement) (string, error) {
	hash, err := m.chain.Broadcast(t, s)
	return hash.Hex(), err
}
