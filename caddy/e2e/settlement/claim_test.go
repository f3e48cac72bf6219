package settlement

import (
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// A success is worth what the chain says of the transaction that it names.
func TestASuccessThatTheChainDoesNotShowStaysOpenUntilTheChainDecides(t *testing.T) {
	t.Parallel()
	s := openShop(t, longTimeout)
	first := s.payment(s.chain.NewBuyer(t))
	require.Equal(t, x402.Settled, s.pay(first).Status)
	real := s.awaitTransfers(1)[0].Tx
	spent := s.payment(s.chain.NewBuyer(t))
	other := s.payment(s.chain.NewBuyer(t))
	reverted, err := s.chain.Send(s.chain.USDC, first.call(t)) // its nonce is spent
	require.NoError(t, err)
	s.chain.Mine(t, 1)
	unknown, borrowed, failed := s.payment(s.chain.NewBuyer(t)), s.payment(s.chain.NewBuyer(t)), s.payment(s.chain.NewBuyer(t))
	canceled, err := s.chain.Send(s.chain.USDC, other.Cancel(t, other.buyer)) // in a block once all are sent
	require.NoError(t, err)
	elsewhere := spent.Authorization
	elsewhere.To = newAddress(t)
	_, err = s.chain.Send(s.chain.USDC, elsewhere.Call(t, elsewhere.Sign(t, spent.buyer)))
	require.NoError(t, err)

	lies := map[string]struct {
		payment     payment
		transaction common.Hash
		reason      string
	}{
		"no such transaction":            {unknown, common.HexToHash("0xdead"), "authorization_expired"},
		"another payment's transaction":  {borrowed, real, "authorization_expired"},
		"the payer's own former one":     {s.payment(first.buyer), real, "authorization_expired"},
		"a reverted transaction":         {failed, reverted, "authorization_expired"},
		"a canceled authorization":       {other, canceled, "authorization_canceled"},
		"the nonce spent somewhere else": {spent, common.HexToHash("0xdead"), "authorization_used_elsewhere"},
	}
	// All at once: each waits for its transaction for a while.
	var work sync.WaitGroup
	outcomes := sync.Map{}
	for name, lie := range lies {
		before := len(s.facilitator.Calls(payoffertest.CallSettle))
		s.facilitator.Script(payoffertest.CallSettle, reply{Idle: true, Transaction: lie.transaction.Hex()})
		work.Go(func() { outcomes.Store(name, s.pay(lie.payment)) })
		s.facilitator.Await(payoffertest.CallSettle, before+1)
	}
	s.chain.Mine(t, 1)
	work.Wait()
	for name := range lies {
		outcome, _ := outcomes.Load(name)
		require.Equal(t, x402.Open, outcome.(x402.Outcome).Status, "%s: %+v", name, outcome)
	}
	s.requireAgreement(1, len(lies))

	s.facilitator.Script(payoffertest.CallSettle, reply{Reason: "invalid_exact_evm_transaction_failed"})
	s.expire()
	s.resolve(late)
	for _, lie := range lies {
		s.requireOpen(lie.payment)
	}
	s.chain.Finalize(t)
	s.resolve(late)
	for name, lie := range lies {
		t.Run(name, func(*testing.T) { s.requireDead(lie.payment, lie.reason) })
	}
	s.requirePaid(first, real)
	s.requireAgreement(1, 0)
}

// With a chain that cannot be read, a success is a claim, counted in no sum; the chain proves it or takes it back.
func TestAClaimIsProvenOrTakenBackByTheChain(t *testing.T) {
	t.Parallel()
	s := openShop(t, longTimeout)
	readable := s.service
	s.service, _ = s.serve(cents, s.payee, "http://127.0.0.1:9") // nobody listens there
	honest, lie := s.payment(s.chain.NewBuyer(t)), s.payment(s.chain.NewBuyer(t))
	s.facilitator.Script(payoffertest.CallSettle, reply{}, reply{Idle: true, Transaction: common.HexToHash("0xdead").Hex()})
	for _, p := range []payment{honest, lie} {
		outcome := s.pay(p)
		require.Equal(t, x402.Settled, outcome.Status, "%+v", outcome)
		require.Equal(t, "claimed", outcome.Evidence)
		require.Equal(t, ledger.EvidenceFacilitator, s.book.requireIntent(t, p, ledger.IntentSettled).Evidence)
	}
	rows, err := s.book.Receipts(t.Context(), offerID, 0, 100)
	require.NoError(t, err)
	require.Empty(t, rows, "a claim is no receipt")

	s.service = readable
	s.facilitator.Script(payoffertest.CallSettle, reply{Reason: "invalid_exact_evm_transaction_failed"})
	s.resolve(soon)
	s.requirePaid(honest, s.awaitTransfers(1)[0].Tx)
	s.requireAgreement(1, 0)
	s.expire()
	s.chain.Finalize(t)
	s.resolve(late) // the claim is false,
	s.resolve(late) // and the payment dead
	s.requireDead(lie, "authorization_expired")
	s.requireAgreement(1, 0)
}
