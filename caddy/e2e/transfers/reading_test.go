package transfers

import (
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// broadcast has a third party send the call of an authorization.
func (s *till) broadcast(data []byte) common.Hash {
	s.Helper()
	hash, err := s.chain.Send(s.chain.USDC, data)
	require.NoError(s, err)
	s.chain.Mine(s, 1)
	require.True(s, s.chain.Succeeded(s, hash))
	return hash
}

// requireUsed requires what the chain says of an authorization now, and whether the rows answer for it.
func (s *till) requireUsed(a chain.Authorization, used, covered bool) ledger.Reading {
	s.Helper()
	r, err := s.observer.Read(s.Context(), s.key(a))
	require.NoError(s, err)
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
	r, err := s.observer.Read(t.Context(), s.key(a))
	require.NoError(t, err)
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
