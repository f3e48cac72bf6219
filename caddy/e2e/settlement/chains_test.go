package settlement

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// openTwo starts one offer with a rail on each of two chains. The two shops share the service, its clock and its ledger,
// and are paid at the same address; each has a facilitator of its own, and a buyer has money on both.
func openTwo(t *testing.T) (sepolia, celo *shop, onSepolia, onCelo payment) {
	t.Helper()
	sepolia = openShop(t)
	celo = &shop{T: t, payee: sepolia.payee, clock: sepolia.clock, book: sepolia.book}
	celo.start(chain.Celo)
	first, evm := sepolia.rail("usdc", cents, sepolia.payee, sepolia.chain.URL)
	sepolia.evm = evm
	second, evm := celo.rail("usdc-42220", cents, celo.payee, celo.chain.URL)
	celo.evm = evm
	sepolia.service = newService(t, sepolia.clock, sepolia.book, &sepolia.log, cents, sepolia.former, first, second)
	celo.service = sepolia.service
	for _, s := range []*shop{sepolia, celo} {
		require.NoError(t, s.evm.Poll(t.Context()))
	}

	buyer := sepolia.chain.Buyers[0]
	celo.chain.Fund(t, chain.Address(buyer))
	return sepolia, celo, sepolia.payment(buyer), celo.payment(buyer)
}

func TestTwoChainsSettleSeparately(t *testing.T) {
	t.Parallel()
	sepolia, celo, onSepolia, onCelo := openTwo(t)
	accepts := sepolia.service.Accepts()
	require.Len(t, accepts, 2)
	require.Equal(t, []string{"eip155:84532", "eip155:42220"}, []string{accepts[0].Network, accepts[1].Network})

	sepolia.paidFirst(onSepolia)
	celo.requireAgreement(0, 0)
	onCelo = celo.payment(onCelo.buyer) // signed after the first charge: a second purchase
	transaction := celo.paidFirst(onCelo)
	sepolia.requireAgreement(1, 0)
	celo.requireAgreement(1, 0)
	for _, s := range []*shop{sepolia, celo} {
		require.Len(t, s.facilitator.Calls(payoffertest.CallVerify), 1)
		require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1)
	}
	for _, row := range celo.receipts() {
		require.Equal(t, row.Rail == "usdc", row.Testnet, "money of the test network is marked as such")
	}

	// A reorganization of one chain is none of the other's business.
	celo.reorganize(onCelo)
	for _, s := range []*shop{sepolia, celo} {
		require.NoError(t, s.evm.Poll(t.Context()))
	}
	celo.requireOpen(onCelo)
	sepolia.requirePaid(onSepolia, sepolia.awaitTransfers(1)[0].Tx)
	celo.resolve(soon)
	again := celo.awaitTransfers(1)[0].Tx
	require.NotEqual(t, transaction, again)
	celo.requirePaid(onCelo, again)
	sepolia.requireAgreement(1, 0)
	celo.requireAgreement(1, 0)
}

// A buyer whose payment is open on one chain must not be charged on the other one.
func TestOpenPaymentBlocksPayerOnOtherChain(t *testing.T) {
	t.Parallel()
	sepolia, celo, onSepolia, onCelo := openTwo(t)
	sepolia.facilitator.Script(payoffertest.CallSettle, reply{Fault: payoffertest.FaultCloseActed})
	sepolia.requireOpen(onSepolia)

	outcome := celo.pay(onCelo)
	require.Equal(t, x402.Conflict, outcome.Status, "%+v", outcome)
	require.Equal(t, onSepolia.Nonce.Hex(), outcome.Intent)
	require.Empty(t, celo.facilitator.Calls(payoffertest.CallSettle))

	sepolia.resolve(soon)
	transaction := sepolia.awaitTransfers(1)[0].Tx
	sepolia.requirePaid(onSepolia, transaction)
	outcome = celo.pay(onCelo)
	require.Equal(t, x402.Settled, outcome.Status, "%+v", outcome)
	require.Equal(t, transaction.Hex(), outcome.Response.Transaction, "one purchase, one charge")
	require.Empty(t, celo.chain.TransfersTo(t, celo.payee))
	celo.book.requireUnknown(t, onCelo)
}

func TestNonceIsPerChain(t *testing.T) {
	t.Parallel()
	sepolia, celo, onSepolia, onCelo := openTwo(t)
	sepolia.paidFirst(onSepolia)
	celo.paidFirst(celo.sign(onSepolia.Nonce, onCelo.buyer))
	sepolia.requireAgreement(1, 0)
	celo.requireAgreement(1, 0)
}

func TestAuthorizationForOtherChainIsRefused(t *testing.T) {
	t.Parallel()
	sepolia, celo, onSepolia, _ := openTwo(t)
	moved := onSepolia
	moved.Network = chain.Celo // but signed for the other
	moved.encode(t)
	outcome := celo.pay(moved)
	require.Equal(t, x402.Refused, outcome.Status, "%+v", outcome)
	require.Equal(t, "invalid_exact_evm_signature", outcome.Reason)
	celo.book.requireUnknown(t, moved)
	for _, s := range []*shop{sepolia, celo} {
		require.Empty(t, s.facilitator.Calls(payoffertest.CallVerify))
		s.requireAgreement(0, 0)
	}
}
