package chain

import (
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
)

const price = 42_000_000

var payee = common.HexToAddress("0x4242424242424242424242424242424242424242")

func TestAnAuthorizationMovesTheMoneyOnce(t *testing.T) {
	t.Parallel()
	c := Start(t)
	a := NewAuthorization(t, Address(c.Buyers[0]), payee, price)
	call := a.Call(t, a.Sign(t, c.Buyers[0]))

	receipt := c.Transact(t, c.Facilitator, call)
	require.Equal(t, types.ReceiptStatusSuccessful, receipt.Status)
	require.Equal(t, big.NewInt(price), c.BalanceOf(t, payee))
	require.Equal(t, big.NewInt(Funds-price), c.BalanceOf(t, a.From))
	require.Equal(t, []Transfer{{From: a.From, Value: big.NewInt(price), Tx: receipt.TxHash, Ordinal: 1}},
		c.TransfersTo(t, payee))

	// Circle's USDC emits AuthorizationUsed immediately before the Transfer; that joins a payment to its transfer.
	require.Len(t, receipt.Logs, 2)
	require.Equal(t, []common.Hash{
		crypto.Keccak256Hash([]byte("AuthorizationUsed(address,bytes32)")), common.BytesToHash(a.From.Bytes()), a.Nonce,
	}, receipt.Logs[0].Topics)
	require.Equal(t, transferTopic, receipt.Logs[1].Topics[0])

	require.Equal(t, types.ReceiptStatusFailed, c.Transact(t, c.Facilitator, call).Status)
	require.Equal(t, big.NewInt(price), c.BalanceOf(t, payee))
}

func TestTheTokenRefuses(t *testing.T) {
	t.Parallel()
	c := Start(t)
	buyer := Address(c.Buyers[0])
	for name, spoil := range map[string]func(*Authorization){
		"a time before the authorization": func(a *Authorization) { a.ValidAfter = time.Now().Add(time.Hour).Unix() },
		"a time after the authorization":  func(a *Authorization) { a.ValidBefore = time.Now().Add(-time.Second).Unix() },
		"more than the balance":           func(a *Authorization) { a.Value = Funds + 1 },
		"a transfer to nobody":            func(a *Authorization) { a.To = common.Address{} },
		"an authorization of another":     func(a *Authorization) { a.From = Address(c.Buyers[1]) },
	} {
		t.Run(name, func(t *testing.T) {
			a := NewAuthorization(t, buyer, payee, price)
			spoil(&a)
			receipt := c.Transact(t, c.Facilitator, a.Call(t, a.Sign(t, c.Buyers[0])))
			require.Equal(t, types.ReceiptStatusFailed, receipt.Status)
		})
	}
	require.Zero(t, c.BalanceOf(t, payee).Sign())
}

func TestTheOverloadWithSignatureInPartsMovesTheMoney(t *testing.T) {
	t.Parallel()
	c := Start(t)
	a := NewAuthorization(t, Address(c.Buyers[0]), payee, price)
	signature := a.Sign(t, c.Buyers[0])
	receipt := c.Transact(t, c.Facilitator,
		Pack(t, "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)",
			a.From, a.To, big.NewInt(a.Value), big.NewInt(a.ValidAfter), big.NewInt(a.ValidBefore), a.Nonce,
			signature[64], common.BytesToHash(signature[:32]), common.BytesToHash(signature[32:64])))
	require.Equal(t, types.ReceiptStatusSuccessful, receipt.Status)
	require.Equal(t, big.NewInt(price), c.BalanceOf(t, payee))
}

func TestACanceledAuthorizationIsWorthless(t *testing.T) {
	t.Parallel()
	c := Start(t)
	a := NewAuthorization(t, Address(c.Buyers[0]), payee, price)

	receipt := c.Transact(t, c.Facilitator, a.Cancel(t, c.Buyers[1]))
	require.Equal(t, types.ReceiptStatusFailed, receipt.Status, "nobody else can cancel it")

	receipt = c.Transact(t, c.Facilitator, a.Cancel(t, c.Buyers[0]))
	require.Equal(t, types.ReceiptStatusSuccessful, receipt.Status)
	require.Len(t, receipt.Logs, 1)
	require.Equal(t, []common.Hash{
		crypto.Keccak256Hash([]byte("AuthorizationCanceled(address,bytes32)")), common.BytesToHash(a.From.Bytes()), a.Nonce,
	}, receipt.Logs[0].Topics)

	receipt = c.Transact(t, c.Facilitator, a.Call(t, a.Sign(t, c.Buyers[0])))
	require.Equal(t, types.ReceiptStatusFailed, receipt.Status)
	require.Zero(t, c.BalanceOf(t, payee).Sign())
}

func TestAContractWalletPays(t *testing.T) {
	t.Parallel()
	c := Start(t)
	a := NewAuthorization(t, Wallet, payee, price)
	receipt := c.Transact(t, c.Facilitator, a.Call(t, []byte("whatever the wallet takes")))
	require.Equal(t, types.ReceiptStatusSuccessful, receipt.Status)
	require.Equal(t, big.NewInt(price), c.BalanceOf(t, payee))
}

func TestTheMinerRestsWithoutTransactionsAndStaysBehindTheClock(t *testing.T) {
	t.Parallel()
	c := Start(t)
	before := c.backend.BlockChain().CurrentBlock().Number.Uint64()
	for range 3 {
		a := NewAuthorization(t, Address(c.Buyers[0]), payee, 1)
		c.Transact(t, c.Facilitator, a.Call(t, a.Sign(t, c.Buyers[0])))
	}
	head := c.backend.BlockChain().CurrentBlock()
	require.Equal(t, before+3, head.Number.Uint64())
	require.LessOrEqual(t, head.Time, uint64(time.Now().Unix()))
}

func TestTheRPCAnswersOverHTTPOnLoopback(t *testing.T) {
	t.Parallel()
	c := Start(t)
	require.True(t, strings.HasPrefix(c.URL, "http://127.0.0.1:"), c.URL)
	answer, err := http.Post(c.URL, "application/json",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}`))
	require.NoError(t, err)
	defer answer.Body.Close()
	var body strings.Builder
	require.NoError(t, answer.Write(&body))
	require.Contains(t, body.String(), `"result":"0x14a34"`)
}
