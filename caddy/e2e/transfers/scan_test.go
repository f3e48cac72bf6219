package transfers

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
)

func TestMoneyFromBeforeTheFirstStartIsNotCounted(t *testing.T) {
	t.Parallel()
	s := openTill(t, 1)
	s.pay()
	require.True(t, s.observer.Health().Blind)
	require.NoError(t, s.round())
	s.requireObserved()
	require.Empty(t, s.receipts())

	later := s.pay()
	s.restart()
	require.NoError(t, s.round())
	require.Len(t, s.receipts(), 1)
	require.Equal(t, ledger.StatusConfirmed, s.receipt(later).Status)
}

func TestAConfiguredBlockIsTheFirstThatCounts(t *testing.T) {
	t.Parallel()
	s := openTill(t, 1)
	s.pay()
	s.config.FromBlock = s.chain.Head() + 1
	first := s.pay()
	s.restart()
	require.NoError(t, s.round())
	require.Len(t, s.receipts(), 1)
	s.receipt(first)

	// An earlier one takes the blocks between in.
	s.config.FromBlock = 1
	s.restart()
	require.NoError(t, s.round())
	s.requireObserved()
	s.requireRight()
	require.Len(t, s.receipts(), 2)
}

// What was paid after the process was started counts, however late the chain answers for the first time.
func TestMoneyFromTheStartOnCounts(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	s.pay()
	require.NoError(t, s.ledger.Register(t.Context(), ledger.Account{
		Offer: offerID, ID: s.config.USDC.Account(), Rail: "usdc", Since: s.chain.Time(),
	}))
	s.rpc[0].fail(fault{status: 502})
	s.rpc[1].fail(fault{status: 502})
	payment := s.pay()
	s.requireCode("unreachable")
	require.True(t, s.observer.Health().Blind)
	s.rpc[0].honest()
	s.rpc[1].honest()
	later := s.pay()
	require.NoError(t, s.round())
	s.requireObserved()
	require.Len(t, s.receipts(), 2)
	s.receipt(payment)
	s.receipt(later)
}

// What was paid while the observer was down is found, however small the ranges are that the endpoint answers for.
func TestWhatWasPaidDuringAnOutageIsFound(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	require.NoError(t, s.round())
	for range 4 {
		s.pay()
		s.chain.Mine(t, 149)
	}
	last := s.pay()
	s.rpc[0].atMost(40)
	s.restart()
	require.NoError(t, s.round())
	s.requireRight()
	s.requireObserved()
	require.Len(t, s.receipts(), 5)
	require.False(t, s.receipt(last).Final)
	final := s.chain.Head() / 32 * 32
	require.Equal(t, final, s.cursor())

	// The cursor spares a second reading.
	s.restart()
	var low hexutil.Uint64
	s.rpc[0].on("eth_getLogs", func(c call, pass func(call) json.RawMessage) (json.RawMessage, error) {
		var query struct{ FromBlock hexutil.Uint64 }
		require.NoError(t, json.Unmarshal(c.Params[0], &query))
		low = query.FromBlock
		return pass(c), nil
	})
	require.NoError(t, s.round())
	require.EqualValues(t, final+1, low)
	s.chain.Finalize(t)
	require.NoError(t, s.round())
	require.True(t, s.receipt(last).Final)
	s.requireRight()
}

func TestEachTransferOfABatchIsAReceipt(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	require.NoError(t, s.round())
	hash := lab.Must(s.chain.Send(chain.Multicall3, s.chain.Batch(t, s.authorized(price), s.authorized(price))))(t)
	s.chain.Mine(t, 1)
	require.True(t, s.chain.Succeeded(t, hash))
	require.NoError(t, s.round())
	s.requireRight()
	require.Len(t, s.receipts(), 2)
}

// A settlement by x402 and a plain transfer of the same payer are one receipt each, whoever reads the chain first.
func TestAPaymentByProgramAndOneByWalletAreOneReceiptEach(t *testing.T) {
	t.Parallel()
	for name, scanFirst := range map[string]bool{"scanned first": true, "proven first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openTill(t, 2)
			payer := chain.Address(s.chain.Payer)
			s.config.Own = func(address string) bool { return address == strings.ToLower(payer.Hex()) }
			s.restart()
			require.NoError(t, s.round())
			a := chain.NewAuthorization(t, payer, s.payee, price)
			program := lab.Must(s.chain.Send(s.chain.USDC, a.Call(t, a.Sign(t, s.chain.Payer))))(t)
			wallet := s.chain.Pay(t, s.payee, price)
			s.chain.Mine(t, 1)
			if scanFirst {
				require.NoError(t, s.round())
			}
			observation, found, err := s.observer.Prove(t.Context(), s.key(a), program.Hex())
			require.NoError(t, err)
			require.True(t, found)
			observation.Via = "x402"
			_, err = s.ledger.Record(t.Context(), nil, observation)
			require.NoError(t, err)
			require.NoError(t, s.round())
			s.requireRight()
			require.Len(t, s.receipts(), 2)
			require.Equal(t, "x402", s.receipt(program).Via)
			require.Empty(t, s.receipt(wallet).Via)
			require.True(t, s.receipt(wallet).Own)
		})
	}
}

// key is an authorization's name in the ledger.
func (s *till) key(a chain.Authorization) ledger.IntentKey {
	return ledger.IntentKey{
		Network: "eip155:84532", Asset: strings.ToLower(s.chain.USDC.Hex()), From: strings.ToLower(a.From.Hex()), Nonce: a.Nonce.Hex(),
	}
}

// A receipt counts at the level that was configured.
func TestAPaymentCountsAtItsLevelOfFinality(t *testing.T) {
	t.Parallel()
	s := openTill(t, 1)
	s.config.Confirm = evm.Finalized
	s.restart()
	require.NoError(t, s.round())
	payment := s.pay()
	require.NoError(t, s.round())
	require.Equal(t, ledger.StatusSeen, s.receipt(payment).Status)
	require.Empty(t, s.confirmed())
	s.chain.Finalize(t)
	require.NoError(t, s.round())
	require.True(t, s.receipt(payment).Final)
	s.requireRight()
}

// A payment that one endpoint shows and another denies is seen, and the cursor waits for it.
func TestAPaymentThatOneEndpointHidesIsSeenUntilBothShowIt(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	require.NoError(t, s.round())
	before := s.chain.Head()
	payment := s.send()
	s.rpc[1].hide(payment)
	s.chain.Mine(t, 1)
	s.chain.Finalize(t)
	s.requireCode("sources_disagree")
	require.True(t, s.observer.Health().Partial)
	require.Equal(t, ledger.StatusSeen, s.receipt(payment).Status)
	require.LessOrEqual(t, s.cursor(), before)

	s.rpc[1].honest()
	s.settle()
	s.requireObserved()
	require.True(t, s.receipt(payment).Final)
	require.Greater(t, s.cursor(), before)
}

// broadcast has a third party send the call of an authorization.
func (s *till) broadcast(data []byte) common.Hash {
	s.Helper()
	hash := lab.Must(s.chain.Send(s.chain.USDC, data))(s)
	s.chain.Mine(s, 1)
	require.True(s, s.chain.Succeeded(s, hash))
	return hash
}

// requireUsed requires what the chain says of an authorization now, and whether the rows answer for it.
func (s *till) requireUsed(a chain.Authorization, used, covered bool) ledger.Reading {
	s.Helper()
	r := lab.Must(s.observer.Read(s.Context(), s.key(a)))(s)
	require.Equal(s, used, r.Used)
	_, through := s.observer.Covered()
	require.Equal(s, covered, through >= r.Block)
	return r
}

// paidBy is the receipt of an authorization's Transfer, if there is one.
func (s *till) paidBy(a chain.Authorization) (ledger.Receipt, bool) {
	s.Helper()
	key := s.key(a)
	row, found, err := s.ledger.AuthorizationReceipt(s.Context(), s.config.USDC.Account(), key.From, key.Nonce)
	require.NoError(s, err)
	return row, found
}

func TestAnAuthorizationThatAThirdPartyBroadcastIsReadAndHasARow(t *testing.T) {
	t.Parallel()
	for _, endpoints := range []int{1, 2} {
		s := openTill(t, endpoints)
		buyer := s.chain.Buyers[0]
		a := chain.NewAuthorization(t, chain.Address(buyer), s.payee, price)
		s.settle()
		r := s.requireUsed(a, false, true)
		require.EqualValues(t, chain.Funds, r.Funds)
		require.Equal(t, s.chain.Head(), r.Block)

		hash := s.broadcast(a.Call(t, a.Sign(t, buyer)))
		require.EqualValues(t, chain.Funds-price, s.requireUsed(a, true, false).Funds)
		_, found := s.paidBy(a)
		require.False(t, found)
		s.settle()
		s.requireUsed(a, true, true)
		row, found := s.paidBy(a)
		require.True(t, found)
		require.Equal(t, hash.Hex(), row.Transaction)
		require.Equal(t, strings.ToLower(a.Nonce.Hex()), row.Nonce)
		require.Equal(t, ledger.StatusConfirmed, row.Status)
		require.EqualValues(t, price, row.Amount)
	}
}

func TestAnAuthorizationThatWasCanceledIsReadAndHasNoRow(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	buyer := s.chain.Buyers[0]
	a := chain.NewAuthorization(t, chain.Address(buyer), s.payee, price)
	s.settle()
	s.broadcast(a.Cancel(t, buyer))
	waiting := s.requireUsed(a, true, false)
	s.settle()
	s.requireUsed(a, true, true)
	_, through := s.observer.Covered()
	require.GreaterOrEqual(t, through, waiting.Block)
	_, found := s.paidBy(a)
	require.False(t, found)
}

// A reorganization takes the use away, and with it the row's answer.
func TestAnAuthorizationThatLeavesTheChainIsUnusedAgain(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	buyer := s.chain.Buyers[0]
	a := chain.NewAuthorization(t, chain.Address(buyer), s.payee, price)
	s.settle()
	hash := s.broadcast(a.Call(t, a.Sign(t, buyer)))
	s.settle()
	s.requireUsed(a, true, true)

	s.chain.Reorganize(t, 1)
	r := lab.Must(s.observer.Read(t.Context(), s.key(a)))(t)
	require.False(t, r.Used)
	require.EqualValues(t, chain.Funds, r.Funds)
	s.settle()
	require.Equal(t, ledger.StatusDropped, s.receipt(hash).Status)
	_, found := s.paidBy(a)
	require.False(t, found)

	// It can be used again, by another transaction.
	again := s.broadcast(a.Call(t, a.Sign(t, buyer)))
	require.NotEqual(t, hash, again)
	s.requireUsed(a, true, false)
	s.settle()
	s.requireUsed(a, true, true)
	row, found := s.paidBy(a)
	require.True(t, found)
	require.Equal(t, again.Hex(), row.Transaction)
}
