package chain

import (
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
)

// transfer is a call that moves the price from the first buyer to the payee.
func transfer(t *testing.T, c *Chain) []byte {
	t.Helper()
	a := NewAuthorization(t, Address(c.Buyers[0]), payee, price)
	a.Network = c.Network
	return a.Call(t, a.Sign(t, c.Buyers[0]))
}

func TestAPausedMinerLeavesTransactionsPending(t *testing.T) {
	t.Parallel()
	c := Start(t)
	c.Pause()
	hash, err := c.Send(c.USDC, transfer(t, c))
	require.NoError(t, err)
	raised := c.Replace(t, hash)
	require.Empty(t, c.TransfersTo(t, payee))

	c.Mine(t, 1)
	require.False(t, c.Succeeded(t, hash))
	require.True(t, c.Succeeded(t, raised))
	require.Len(t, c.TransfersTo(t, payee), 1)

	c.Resume()
	c.Transact(t, c.Facilitator, transfer(t, c))
	require.Len(t, c.TransfersTo(t, payee), 2)
}

func TestAReorganizationRemovesTransactionsForGood(t *testing.T) {
	t.Parallel()
	c := Start(t)
	c.Pause()
	before := c.number()
	hash, err := c.Send(c.USDC, transfer(t, c))
	require.NoError(t, err)
	c.Mine(t, 2)
	require.Len(t, c.TransfersTo(t, payee), 1)

	c.Reorganize(t, 2)
	require.Equal(t, before+3, c.number())
	require.Empty(t, c.TransfersTo(t, payee))
	require.False(t, c.Succeeded(t, hash))
	require.Zero(t, c.BalanceOf(t, payee).Sign())
	c.Mine(t, 3)
	require.Empty(t, c.TransfersTo(t, payee), "it does not come back by itself")
}

func TestTimeElapsesAndBlocksBecomeFinal(t *testing.T) {
	t.Parallel()
	c := Start(t)
	c.Pause()
	c.Elapse(t, time.Hour)
	head := c.backend.BlockChain().CurrentBlock()
	require.Greater(t, head.Time, uint64(time.Now().Add(59*time.Minute).Unix()))

	c.Finalize(t)
	final, err := c.client.HeaderByNumber(t.Context(), big.NewInt(int64(rpc.FinalizedBlockNumber)))
	require.NoError(t, err)
	require.GreaterOrEqual(t, final.Number.Uint64(), head.Number.Uint64())
	require.Error(t, c.Try(c.USDC, transfer(t, c)), "the authorization has expired")
}

func TestABatchMakesTwoTransfersInOneTransaction(t *testing.T) {
	t.Parallel()
	c := StartNetwork(t, Celo)
	batch := c.Batch(t, transfer(t, c), transfer(t, c))
	require.NoError(t, c.Try(Multicall3, batch))
	hash, err := c.Send(Multicall3, batch)
	require.NoError(t, err)
	c.Mine(t, 1)
	transfers := c.TransfersTo(t, payee)
	require.Len(t, transfers, 2)
	require.Equal(t, []uint{1, 3}, []uint{transfers[0].Ordinal, transfers[1].Ordinal})
	for _, transfer := range transfers {
		require.Equal(t, hash, transfer.Tx)
	}
	receipt, err := c.client.TransactionReceipt(t.Context(), hash)
	require.NoError(t, err)
	require.Equal(t, types.ReceiptStatusSuccessful, receipt.Status)
	require.Equal(t, big.NewInt(Funds/10), c.BalanceOf(t, Address(c.NewBuyer(t))))
}
