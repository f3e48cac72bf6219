package settlement

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Anybody may broadcast a signed authorization. The payer who did so has paid.
func TestAPaymentThatSomebodyElseBroadcastIsPaid(t *testing.T) {
	t.Parallel()
	s := openShop(t, longTimeout)
	p := s.payment(s.chain.Buyers[0])
	transaction, err := s.chain.Send(s.chain.USDC, p.call(t))
	require.NoError(t, err)
	s.chain.Mine(t, 1)
	s.requireOpen(p) // the facilitator's transaction would be reverted
	require.NoError(t, s.evm.Poll(t.Context()))
	s.resolve(soon)
	s.requirePaid(p, transaction)
	s.requireAgreement(1, 0)
	require.Empty(t, s.facilitator.Calls(payoffertest.CallSettle))
}

// A payer may spend the nonce of the authorization on a smaller payment to the same address. That is no payment of the
// price, and becomes a definite no with its block.
func TestANonceSpentOnLessIsNoPaymentOfThePrice(t *testing.T) {
	t.Parallel()
	s := openShop(t, longTimeout)
	p := s.payment(s.chain.Buyers[0])
	less := p.Authorization
	less.Value = 1
	_, err := s.chain.Send(s.chain.USDC, less.Call(t, less.Sign(t, p.buyer)))
	require.NoError(t, err)
	s.chain.Mine(t, 1)
	s.requireOpen(p)
	s.resolve(soon)
	s.requireOpen(p)
	s.book.requireIntent(t, p, ledger.IntentSettling)

	for range 3 { // until it has read that block twice
		require.NoError(t, s.evm.Poll(t.Context()))
	}
	s.resolve(soon)
	unpaid := s.pay(p) // for all that is known it was used before the receipts began
	require.Equal(t, x402.Conflict, unpaid.Status, "%+v", unpaid)
	require.Zero(t, unpaid.RetryAfter)
	s.book.requireOpenIntents(t, 0)
	require.Zero(t, s.chain.BalanceOf(t, s.payee).Cmp(big.NewInt(1)))

	// The payer is free to pay.
	outcome := s.pay(s.payment(p.buyer))
	require.Equal(t, x402.Settled, outcome.Status, "%+v", outcome)
}
