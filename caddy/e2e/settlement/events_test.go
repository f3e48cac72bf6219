package settlement

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func TestReplacedTransactionFoundByNewHash(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]reply{
		"after settlement_pending": {Reason: "settlement_pending"},
		"after a success":          {Idle: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t)
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

func TestBatchTransactionMakesTwoReceipts(t *testing.T) {
	t.Parallel()
	s := openShop(t)
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
	s := openShop(t)
	p := s.payment(s.chain.Buyers[0])
	require.Equal(t, x402.Settled, s.pay(p).Status)
	s.requireAgreement(1, 0)
	s.reorganize(p)
	require.NoError(t, s.evm.Poll(t.Context()))
	return s, p
}

func TestReorgedSettlementIsResubmitted(t *testing.T) {
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

func TestReorgedSettlementRefusedAfterFinalizedExpiry(t *testing.T) {
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

func TestReorgToOtherTransactionStaysPaid(t *testing.T) {
	t.Parallel()
	s, p := reorganized(t)
	again := lab.Must(s.chain.Send(s.chain.USDC, p.call(t)))(t)
	s.chain.Mine(t, 1)
	s.resolve(soon)
	s.requirePaid(p, again)
	require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1, "the chain was asked before the facilitator")
	s.requireAgreement(1, 0)
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
