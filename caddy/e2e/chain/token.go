package chain

import (
	"crypto/ecdsa"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
)

// transferTopic identifies the event Transfer of ERC-20.
var transferTopic = crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))

// sealDeadline is far more than the second or two that a transaction waits for its block.
const sealDeadline = 30 * time.Second

// Transfer is one movement of USDC on the chain.
type Transfer struct {
	// From is the sender.
	From common.Address
	// Value is in atomic units: 1,000,000 is 1 USDC.
	Value *big.Int
	// Tx is the transaction's hash.
	Tx common.Hash
	// Ordinal is the place of the Transfer log among the logs of its transaction, from 0.
	Ordinal uint
}

// BalanceOf returns the USDC balance of an account in atomic units.
func (c *Chain) BalanceOf(t testing.TB, account common.Address) *big.Int {
	t.Helper()
	answer, err := c.client.CallContract(t.Context(),
		ethereum.CallMsg{To: &c.USDC, Data: Pack(t, "balanceOf(address)", account)}, nil)
	require.NoError(t, err)
	return new(big.Int).SetBytes(answer)
}

// TransfersTo returns every Transfer of USDC to an account, oldest first.
func (c *Chain) TransfersTo(t testing.TB, account common.Address) []Transfer {
	t.Helper()
	logs, err := c.client.FilterLogs(t.Context(), ethereum.FilterQuery{
		FromBlock: common.Big0,
		Addresses: []common.Address{c.USDC},
		Topics:    [][]common.Hash{{transferTopic}, nil, {common.BytesToHash(account.Bytes())}},
	})
	require.NoError(t, err)
	transfers := make([]Transfer, 0, len(logs))
	for _, log := range logs {
		receipt, err := c.client.TransactionReceipt(t.Context(), log.TxHash)
		require.NoError(t, err)
		transfers = append(transfers, Transfer{
			From:    common.BytesToAddress(log.Topics[1].Bytes()),
			Value:   new(big.Int).SetBytes(log.Data),
			Tx:      log.TxHash,
			Ordinal: log.Index - receipt.Logs[0].Index,
		})
	}
	return transfers
}

// Transact sends a call to the USDC contract, paid by an account that holds ether, and returns its receipt as soon as
// it is in a block, reverted or not.
func (c *Chain) Transact(t testing.TB, key *ecdsa.PrivateKey, data []byte) *types.Receipt {
	t.Helper()
	hash, err := c.send(key, c.USDC, data)
	require.NoError(t, err)
	var receipt *types.Receipt
	require.Eventually(t, func() bool {
		receipt, err = c.client.TransactionReceipt(t.Context(), hash)
		return err == nil
	}, sealDeadline, tick, "no block took the transaction")
	return receipt
}

// Pack encodes a call of a contract's function, named by its signature such as "balanceOf(address)" (Solidity ABI).
func Pack(t testing.TB, signature string, values ...any) []byte {
	t.Helper()
	_, list, _ := strings.Cut(strings.TrimSuffix(signature, ")"), "(")
	var arguments abi.Arguments
	for name := range strings.SplitSeq(list, ",") {
		kind, err := abi.NewType(name, "", nil)
		require.NoError(t, err)
		arguments = append(arguments, abi.Argument{Type: kind})
	}
	packed, err := arguments.Pack(values...)
	require.NoError(t, err)
	return append(crypto.Keccak256([]byte(signature))[:4], packed...)
}

// balanceSlot is where Solidity keeps balanceOf[account] of a mapping in slot 0.
func balanceSlot(account common.Address) common.Hash {
	return crypto.Keccak256Hash(common.LeftPadBytes(account.Bytes(), 32), make([]byte, 32))
}
