// Package attack proves that nobody can shut the rail and that nobody pays twice: the built server before strangers who
// forge and replay, before buyers who sign anew, and before facilitators that throw, hang and lie.
package attack

import (
	"crypto/ecdsa"
	"errors"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
)

const (
	// price is what the offers of this package cost, 0.42 USDC in atomic units, and dollars the same: little, so that the
	// money of one chain is enough for many payments.
	price   = 420_000
	dollars = "0.42"
	// purse is how many payments a buyer can make.
	purse = 6
)

// patience is how long something may take that happens in the background.
const patience = 30 * time.Second

type market struct {
	*testing.T
	chain *chain.Chain

	mu     sync.Mutex
	buyers []*ecdsa.PrivateKey
	// sending keeps two transactions of one account from taking the same number.
	sending sync.Mutex
}

// openMarket starts a chain with so many buyers who have money.
func openMarket(t *testing.T, network chain.Network, buyers int) *market {
	t.Helper()
	m := &market{T: t, chain: chain.StartNetwork(t, network)}
	for range buyers {
		m.buyers = append(m.buyers, m.stranger())
		m.fund(m.buyers[len(m.buyers)-1])
	}
	require.Eventually(t, func() bool { return m.funded(chain.Address(m.buyers[buyers-1])) }, patience, 50*time.Millisecond)
	return m
}

func (m *market) stranger() *ecdsa.PrivateKey {
	m.Helper()
	key, err := crypto.GenerateKey()
	require.NoError(m, err)
	return key
}

// fund asks for a full purse, which is there with the next block.
func (m *market) fund(key *ecdsa.PrivateKey) {
	m.Helper()
	gift := chain.NewAuthorization(m, chain.Wallet, chain.Address(key), purse*price)
	gift.Network = m.chain.Network
	call := gift.Call(m, []byte("whatever the wallet takes"))
	require.Eventually(m, func() bool {
		_, err := m.chain.Send(m.chain.USDC, call)
		return err == nil // while a block is made, the sender's next number is not sure
	}, patience, time.Millisecond)
}

func (m *market) funded(account common.Address) bool {
	return m.chain.BalanceOf(m, account).Cmp(big.NewInt(price)) >= 0
}

// buyer is the next who has bought nothing yet.
func (m *market) buyer() *ecdsa.PrivateKey {
	m.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	require.NotEmpty(m, m.buyers, "no buyer is left")
	next := m.buyers[0]
	m.buyers = m.buyers[1:]
	return next
}

var errReverted = errors.New("the transaction was reverted")

// broadcast does what facilitators do: it tries a call before it pays for it, and returns when it is in a block. It may run
// beside the test's goroutine.
func (m *market) broadcast(call []byte) (common.Hash, error) {
	hash, err := m.send(call)
	if err != nil {
		return common.Hash{}, err
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if m.chain.Succeeded(m, hash) {
			return hash, nil
		}
	}
	return common.Hash{}, errReverted
}

func (m *market) send(call []byte) (common.Hash, error) {
	m.sending.Lock()
	defer m.sending.Unlock()
	if err := m.chain.Try(m.chain.USDC, call); err != nil {
		return common.Hash{}, err
	}
	return m.chain.Send(m.chain.USDC, call)
}

// byStranger broadcasts a call as somebody who has nothing to do with the sale.
func (m *market) byStranger(call []byte) common.Hash {
	m.Helper()
	m.sending.Lock()
	defer m.sending.Unlock()
	return m.chain.Transact(m, m.chain.Payer, call).TxHash
}

// charges are the transactions in which a buyer has paid a payee, oldest first.
func (m *market) charges(payee common.Address, by *ecdsa.PrivateKey) (transactions []common.Hash) {
	m.Helper()
	for _, transfer := range m.chain.TransfersTo(m, payee) {
		if transfer.From == chain.Address(by) {
			transactions = append(transactions, transfer.Tx)
		}
	}
	return transactions
}
