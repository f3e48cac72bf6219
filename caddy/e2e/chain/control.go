package chain

import (
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Epoch is the number of blocks after which the simulated beacon finalizes: a block with a multiple of it as number is
// final at once, and all before it.
const Epoch = 32

// Pause stops the miner: from now on blocks are made by Mine alone.
func (c *Chain) Pause() {
	c.sealing.Lock()
	defer c.sealing.Unlock()
	c.paused = true
}

// Resume lets the miner work again.
func (c *Chain) Resume() {
	c.sealing.Lock()
	defer c.sealing.Unlock()
	c.paused = false
}

// Mine makes blocks, the first of which takes what is pending. Each is at least a second after the one before, so that
// many of them bring the chain ahead of the clock. It may be called beside the test's goroutine.
func (c *Chain) Mine(t testing.TB, blocks int) {
	t.Helper()
	c.sealing.Lock()
	defer c.sealing.Unlock()
	c.mineLocked(t, blocks)
}

// commits is how often the chain is asked for a block: it gives up one that takes long on a busy machine.
const commits = 50

func (c *Chain) mineLocked(t testing.TB, blocks int) {
	t.Helper()
	for range blocks {
		before := c.number()
		for range commits {
			if c.beacon.Commit(); c.number() > before {
				break
			}
		}
		assert.Equal(t, before+1, c.number(), "the chain made no block")
	}
}

func (c *Chain) number() uint64 { return c.backend.BlockChain().CurrentBlock().Number.Uint64() }

// Head returns the number of the newest block.
func (c *Chain) Head() uint64 {
	c.sealing.Lock()
	defer c.sealing.Unlock()
	return c.number()
}

// Time returns the time of the newest block in Unix seconds.
func (c *Chain) Time() int64 {
	c.sealing.Lock()
	defer c.sealing.Unlock()
	return int64(c.backend.BlockChain().CurrentBlock().Time)
}

// Pending returns how many transactions wait for a block.
func (c *Chain) Pending(t testing.TB) int {
	t.Helper()
	c.sealing.Lock()
	defer c.sealing.Unlock()
	require.NoError(t, c.backend.TxPool().Sync())
	pending, _ := c.backend.TxPool().Stats()
	return pending
}

// Finalize makes blocks until what is on the chain now is final.
func (c *Chain) Finalize(t testing.TB) {
	t.Helper()
	c.sealing.Lock()
	defer c.sealing.Unlock()
	c.mineLocked(t, int(Epoch-c.number()%Epoch))
}

// Elapse makes a block whose time is so much later than that of the one before. Nothing may be pending.
func (c *Chain) Elapse(t testing.TB, d time.Duration) {
	t.Helper()
	c.sealing.Lock()
	defer c.sealing.Unlock()
	require.NoError(t, c.backend.TxPool().Sync())
	require.NoError(t, c.beacon.AdjustTime(d))
}

// Reorganize replaces the newest blocks, which must not be final, by as many others and one more, in which their
// transactions of the facilitator are not, and cannot be any more.
func (c *Chain) Reorganize(t testing.TB, blocks int) {
	t.Helper()
	c.sealing.Lock()
	defer c.sealing.Unlock()
	c.forkLocked(t, blocks)
	// Another transaction with the same nonce takes the place of each that is pending again.
	account := Address(c.Facilitator)
	next, err := c.client.NonceAt(t.Context(), account, nil)
	require.NoError(t, err)
	end, err := c.client.PendingNonceAt(t.Context(), account)
	require.NoError(t, err)
	c.beacon.Rollback()
	for nonce := next; nonce < end; nonce++ {
		require.NoError(t, c.broadcast(c.signTx(c.Facilitator, nonce, account, nil, 1)))
	}
	c.mineLocked(t, blocks+1)
}

// Move replaces the newest blocks, which must not be final, by as many others and one more, in which their transactions
// are again.
func (c *Chain) Move(t testing.TB, blocks int) {
	t.Helper()
	c.sealing.Lock()
	defer c.sealing.Unlock()
	c.forkLocked(t, blocks)
	c.mineLocked(t, blocks+1)
}

// Rewind takes the newest blocks away, as a chain does that is about to grow another way. Their transactions are
// pending again.
func (c *Chain) Rewind(t testing.TB, blocks int) {
	t.Helper()
	c.sealing.Lock()
	defer c.sealing.Unlock()
	c.forkLocked(t, blocks)
}

// forkLocked takes the newest blocks away. Their transactions are pending again.
func (c *Chain) forkLocked(t testing.TB, blocks int) {
	t.Helper()
	parent := c.backend.BlockChain().GetBlockByNumber(c.number() - uint64(blocks))
	require.NotNil(t, parent)
	require.NoError(t, c.beacon.Fork(parent.Hash()))
	require.NoError(t, c.backend.TxPool().Sync())
}

// Send broadcasts a call of a contract, paid by the facilitator, and waits for no block. It may be called beside the
// test's goroutine, one at a time.
func (c *Chain) Send(to common.Address, data []byte) (common.Hash, error) {
	return c.send(c.Facilitator, to, data)
}

// Pay broadcasts a plain transfer of USDC by the Payer, for so high a fee that it comes first in its block.
func (c *Chain) Pay(t testing.TB, to common.Address, value int64) common.Hash {
	t.Helper()
	c.sealing.Lock()
	defer c.sealing.Unlock()
	require.NoError(t, c.backend.TxPool().Sync())
	nonce, err := c.client.PendingNonceAt(t.Context(), Address(c.Payer))
	require.NoError(t, err)
	tx, err := c.signTx(c.Payer, nonce, c.USDC, Pack(t, "transfer(address,uint256)", to, big.NewInt(value)), 2)
	require.NoError(t, c.broadcast(tx, err))
	return tx.Hash()
}

// Replace broadcasts a pending transaction of the facilitator again, for twice the fee: it gets another hash, and only
// one of the two can be mined.
func (c *Chain) Replace(t testing.TB, hash common.Hash) common.Hash {
	t.Helper()
	old, pending, err := c.client.TransactionByHash(t.Context(), hash)
	require.NoError(t, err)
	require.True(t, pending, "the transaction is in a block already")
	raised, err := c.signTx(c.Facilitator, old.Nonce(), *old.To(), old.Data(), 2)
	require.NoError(t, c.broadcast(raised, err))
	return raised.Hash()
}

// Try returns the error with which a call of a contract by the facilitator would fail now.
func (c *Chain) Try(to common.Address, data []byte) error {
	return c.try(Address(c.Facilitator), to, data)
}

// Succeeded reports whether a transaction is on the chain and was not reverted.
func (c *Chain) Succeeded(t testing.TB, hash common.Hash) bool {
	t.Helper()
	receipt, err := c.client.TransactionReceipt(t.Context(), hash)
	return err == nil && receipt.Status == types.ReceiptStatusSuccessful
}
