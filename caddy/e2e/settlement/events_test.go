package settlement

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func TestATransactionThatWaitsForItsBlockIsNoLessPaid(t *testing.T) {
	t.Parallel()
	s := openShop(t, longTimeout)
	p := s.payment(s.chain.Buyers[0])
	pending := lab.Must(s.chain.Send(s.chain.USDC, p.call(t)))(t)
	s.facilitator.Script(payoffertest.CallSettle, reply{Reason: "settlement_pending", Transaction: pending.Hex()})

	s.requireOpen(p)
	require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 2, "repeated once, identically")
	calls := s.facilitator.Calls(payoffertest.CallSettle)
	require.Equal(t, calls[0].Body, calls[1].Body)
	s.resolve(soon)
	s.requireOpen(p)
	s.requireAgreement(0, 1)

	s.chain.Mine(t, 1)
	s.resolve(soon)
	s.requirePaid(p, pending)
	s.requireAgreement(1, 0)
}

func TestATransactionWithARaisedFeeIsFoundUnderItsOtherHash(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]reply{
		"after settlement_pending": {Reason: "settlement_pending"},
		"after a success":          {Idle: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, longTimeout)
			p := s.payment(s.chain.Buyers[0])
			first := lab.Must(s.chain.Send(s.chain.USDC, p.call(t)))(t)
			script.Transaction = first.Hex()
			s.facilitator.Script(payoffertest.CallSettle, script)
			s.requireOpen(p)

			raised := s.chain.Replace(t, first)
			require.NotEqual(t, first, raised)
			s.chain.Mine(t, 1)
			s.resolve(soon)
			s.requirePaid(p, raised)
			s.requireAgreement(1, 0)
		})
	}
}

func TestTwoSettlementsInOneTransactionAreTwoReceipts(t *testing.T) {
	t.Parallel()
	s := openShop(t, longTimeout)
	payments := []payment{s.payment(s.chain.Buyers[0]), s.payment(s.chain.Buyers[1])}
	batch := lab.Must(s.chain.Send(chain.Multicall3, s.chain.Batch(t, payments[0].call(t), payments[1].call(t))))(t)
	s.facilitator.Script(payoffertest.CallSettle, reply{Idle: true, Transaction: batch.Hex()})
	outcomes := make(chan x402.Outcome, len(payments))
	for _, p := range payments {
		go func() { outcomes <- s.pay(p) }()
	}
	s.facilitator.Await(payoffertest.CallSettle, len(payments))
	s.chain.Mine(t, 1)
	for range payments {
		outcome := <-outcomes
		require.Equal(t, x402.Settled, outcome.Status, "%+v", outcome)
	}
	for _, p := range payments {
		s.requirePaid(p, batch)
	}
	require.NoError(t, s.evm.Poll(t.Context())) // the block may have come while it was looked for
	s.requireAgreement(2, 0)
	rows := lab.Must(s.book.Receipts(t.Context(), offerID, 0, 10))(t)
	require.NotEqual(t, rows[0].Payer, rows[1].Payer)
}

// reorganized is a settled payment whose transaction left the chain, as the observer has seen.
func reorganized(t *testing.T) (*shop, payment) {
	t.Helper()
	s := openShop(t, longTimeout)
	p := s.payment(s.chain.Buyers[0])
	require.Equal(t, x402.Settled, s.pay(p).Status)
	s.requireAgreement(1, 0)
	s.reorganize(p)
	require.NoError(t, s.evm.Poll(t.Context()))
	return s, p
}

func TestASettlementThatLeftTheChainIsSubmittedAgain(t *testing.T) {
	t.Parallel()
	s, p := reorganized(t)
	s.requireOpen(p)
	s.requireBlocked(p)
	s.requireAgreement(0, 1)
	s.requireDropped(1)

	s.resolve(soon)
	require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 2)
	s.requirePaid(p, s.awaitTransfers(1)[0].Tx)
	require.NoError(t, s.evm.Poll(t.Context()))
	s.requirePaid(p, s.awaitTransfers(1)[0].Tx)
	s.requireAgreement(1, 0)
	s.requireDropped(1)
}

func TestASettlementThatLeftTheChainForGoodIsANoAfterItsFinalizedExpiry(t *testing.T) {
	t.Parallel()
	s, p := reorganized(t)
	s.facilitator.Script(payoffertest.CallSettle, reply{Reason: "invalid_exact_evm_transaction_failed"})
	s.resolve(soon)
	s.requireOpen(p)
	s.expire()
	s.resolve(late)
	s.requireOpen(p)

	s.chain.Finalize(t)
	s.resolve(late)
	s.requireDead(p, "authorization_expired")
	s.requireAgreement(0, 0)
	s.requireDropped(1)
}

func TestASettlementThatMovedToAnotherTransactionKeepsItsAnswer(t *testing.T) {
	t.Parallel()
	s, p := reorganized(t)
	again := lab.Must(s.chain.Send(s.chain.USDC, p.call(t)))(t)
	s.chain.Mine(t, 1)
	s.resolve(soon)
	s.requirePaid(p, again)
	require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1, "the chain was asked before the facilitator")
	s.requireAgreement(1, 0)
}

func TestASettlementThatMovedToAnotherBlockStaysSettled(t *testing.T) {
	t.Parallel()
	s := openShop(t, longTimeout)
	p := s.payment(s.chain.Buyers[0])
	require.Equal(t, x402.Settled, s.pay(p).Status)
	transaction := s.awaitTransfers(1)[0].Tx
	before := s.receipts()
	s.chain.Move(t, 1)
	require.NoError(t, s.evm.Poll(t.Context()))
	s.requirePaid(p, transaction)
	s.requireAgreement(1, 0)
	after := s.receipts()
	require.NotEqual(t, string(before[0].Evidence), string(after[0].Evidence), "it is in another block now")

	s.chain.Finalize(t)
	require.NoError(t, s.evm.Poll(t.Context()))
	require.True(t, s.receipts()[0].Final)
	require.Equal(t, before[0].Version, s.receipts()[0].Version, "nobody is told of a payment twice")
}

// reorganize replaces the newest block, in which a payment was made.
func (s *shop) reorganize(p payment) {
	s.Helper()
	s.chain.Reorganize(s, 1)
	s.facilitator.Forget(p.Nonce.Hex())
}

func (s *shop) receipts() []ledger.Receipt {
	s.Helper()
	rows := lab.Must(s.book.Receipts(s.Context(), offerID, 0, 100))(s)
	return rows
}

// requireDropped requires so many receipts of transactions that left the chain.
func (s *shop) requireDropped(count int) {
	s.Helper()
	dropped := 0
	for _, row := range s.receipts() {
		if row.Status == ledger.StatusDropped {
			dropped++
		}
	}
	require.Equal(s, count, dropped)
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
