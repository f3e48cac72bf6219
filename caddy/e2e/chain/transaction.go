package chain

import (
	"context"
	"crypto/ecdsa"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
	"github.com/stretchr/testify/require"
)

// gas is enough for a batch of two transfers.
const gas = 600_000

// send signs a transaction with the account's next nonce and broadcasts it. It waits until
// the pool has taken in the last block, because the nonce is wrong before.
func (c *Chain) send(key *ecdsa.PrivateKey, to common.Address, data []byte) (common.Hash, error) {
	c.sealing.Lock()
	defer c.sealing.Unlock()
	if err := c.backend.TxPool().Sync(); err != nil {
		return common.Hash{}, err
	}
	nonce, err := c.client.PendingNonceAt(context.Background(), Address(key))
	if err != nil {
		return common.Hash{}, err
	}
	tx, err := c.signTx(key, nonce, to, data, 1)
	if err != nil {
		return common.Hash{}, err
	}
	return tx.Hash(), c.broadcast(tx, nil)
}

// signTx makes a transaction that pays so many times the usual fee.
func (c *Chain) signTx(key *ecdsa.PrivateKey, nonce uint64, to common.Address, data []byte, fee int64) (*types.Transaction, error) {
	id := big.NewInt(c.ID)
	return types.SignNewTx(key, types.LatestSignerForChainID(id), &types.DynamicFeeTx{
		ChainID:   id,
		Nonce:     nonce,
		To:        &to,
		Data:      data,
		Gas:       gas,
		GasFeeCap: big.NewInt(10 * fee * params.GWei),
		GasTipCap: big.NewInt(fee * params.GWei),
	})
}

// broadcast passes on the error of making tx.
func (c *Chain) broadcast(tx *types.Transaction, err error) error {
	if err != nil {
		return err
	}
	return c.client.SendTransaction(context.Background(), tx)
}

func (c *Chain) try(from, to common.Address, data []byte) error {
	_, err := c.client.CallContract(context.Background(), ethereum.CallMsg{From: from, To: &to, Data: data}, nil)
	return err
}

// Batch encodes a call of Multicall3 that makes several calls of the network's USDC in one transaction; all or none.
func (n Network) Batch(t testing.TB, calls ...[]byte) []byte {
	t.Helper()
	type call struct {
		Target   common.Address
		CallData []byte
	}
	var batch []call
	for _, data := range calls {
		batch = append(batch, call{n.USDC, data})
	}
	parsed, err := abi.JSON(strings.NewReader(`[{"type":"function","name":"tryAggregate","inputs":[
		{"name":"requireSuccess","type":"bool"},
		{"name":"calls","type":"tuple[]","components":[{"name":"target","type":"address"},{"name":"callData","type":"bytes"}]}]}]`))
	require.NoError(t, err)
	data, err := parsed.Pack("tryAggregate", true, batch)
	require.NoError(t, err)
	return data
}

// NewBuyer returns a new account that holds the price of several payments.
func (c *Chain) NewBuyer(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key := NewKey(t)
	c.Fund(t, Address(key))
	return key
}

// Fund moves the price of several payments from the Wallet to an account.
func (c *Chain) Fund(t testing.TB, account common.Address) {
	t.Helper()
	a := NewAuthorization(t, Wallet, account, Funds/10)
	_, err := c.Send(c.USDC, a.Call(t, []byte("whatever the wallet takes")))
	require.NoError(t, err)
	c.Mine(t, 1)
	require.Equal(t, big.NewInt(Funds/10), c.BalanceOf(t, account))
}
