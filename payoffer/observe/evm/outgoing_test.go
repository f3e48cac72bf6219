package evm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// candidates are the outgoing transfers that may be refunds, by external id.
func (s *till) candidates() map[string]ledger.Outgoing {
	s.Helper()
	list, err := s.book.RefundCandidates(s.Context(), offerID, 1000)
	require.NoError(s, err)
	found := make(map[string]ledger.Outgoing)
	for _, o := range list {
		found[o.ExternalID] = o
	}
	return found
}

// What goes back to somebody who had paid may be a refund, once it is final. Nothing is booked.
func TestATransferBackToAPayerIsACandidateForARefund(t *testing.T) {
	t.Parallel()
	s := openRead(t, 2)
	payment := s.chain.pay(price)
	refund := s.chain.transaction(transfer(stranger, stranger, 1), transfer(payTo, payer, 10_000_000), transfer(payTo, payer, 5_000_000))
	failed := s.chain.transaction(transfer(payTo, payer, price))
	failed.failed = true
	s.chain.mine(1, refund, failed, s.chain.transaction(
		transfer(payTo, stranger, price), transfer(payTo, payTo, price),
		transfer(payTo, payer, 0), transfer(payTo, payer, 9_999), // anybody can make these
		[]event{{stranger, transfer(payTo, payer, price)[0].topics, transfer(payTo, payer, price)[0].data}},
	))
	s.round()
	s.requireObserved()
	require.Empty(t, s.candidates(), "it may still leave the chain")
	s.chain.finalize()
	s.round()
	got := s.candidates()
	require.Len(t, got, 2)
	id := fmt.Sprintf("eip155:84532:%s:1", refund.hash.Hex())
	require.Equal(t, ledger.Outgoing{
		Offer: offerID, Account: s.config.USDC.Account(), ExternalID: id, Transaction: refund.hash.Hex(), To: strings.ToLower(payer.Hex()),
		Asset: strings.ToLower(token.Hex()), Amount: 10_000_000, OccurredAt: s.chain.blocks[s.chain.head()].time,
	}, got[id])
	require.Contains(t, got, fmt.Sprintf("eip155:84532:%s:2", refund.hash.Hex()))
	s.requireStatus(ledger.StatusConfirmed, payment)
	require.Zero(t, s.row(payment).Refunded)

	// A lost ledger finds them again, also in one range and from the newest backwards.
	s.lose()
	s.config.FromBlock = 1
	s.restart()
	s.round()
	require.Equal(t, got, s.candidates())
}

// It does not matter whether the payment or its refund is read first; but who was paid before he paid got no refund.
func TestARefundMayBeReadBeforeItsPayment(t *testing.T) {
	t.Parallel()
	s := open(t, 1)
	early := s.chain.transaction(transfer(payTo, payer, price))
	s.chain.mine(1, early)
	s.chain.pay(price)
	s.chain.mine(2000)
	s.chain.finalize()
	s.round()
	s.chain.mine(1, s.chain.transaction(transfer(payTo, payer, price)))
	s.chain.finalize()
	s.round()
	require.Empty(t, s.candidates())
	s.lower(1)
	s.round()
	got := s.candidates()
	require.Len(t, got, 1)
	require.NotContains(t, got, fmt.Sprintf("eip155:84532:%s:0", early.hash.Hex()))
}

// What only one of two shows is no candidate, and the cursor does not pass it; the receipts go on.
func TestACandidateNeedsEnoughEndpoints(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(n *node, refund *transaction){
		"one hides it": func(n *node, refund *transaction) { n.hide(refund) },
		"one shows less": func(n *node, refund *transaction) {
			n.branch = n.fork()
			n.replace(refund, &transaction{hash: refund.hash, events: transfer(payTo, payer, 1_000_000)})
		},
		"one does not say what": func(n *node, _ *transaction) { n.on("eth_getLogs", onlyIncoming) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openRead(t, 2)
			s.chain.pay(price)
			refund := s.chain.transaction(transfer(payTo, payer, price))
			s.chain.mine(1, refund)
			place := s.chain.head()
			s.chain.mine(1)
			s.chain.finalize()
			trouble(s.nodes[1], refund)
			require.Error(t, s.look())
			require.Empty(t, s.candidates())
			require.Less(t, s.cursor(), place)
			require.Len(t, s.confirmed(), 1)
			s.nodes[1].branch = s.chain
			s.nodes[1].honest()
			s.restart()
			s.settle()
			require.Len(t, s.candidates(), 1)
			require.Equal(t, s.chain.head(), s.cursor())
		})
	}
}

// onlyIncoming refuses to filter by the sender.
func onlyIncoming(c call, pass func() any) any {
	if q := c.query(); len(q.Topics) > 1 && q.Topics[1] != nil && q.Topics[1][0] == wordOf(payTo) {
		return fault{code: -32000}
	}
	return pass()
}

// One query more for each range of final blocks, and none for those that are read again in every round.
func TestCandidatesCostOneQueryARange(t *testing.T) {
	t.Parallel()
	s := openRead(t, 1)
	s.chain.mine(10)
	s.chain.finalize()
	s.chain.mine(100)
	queries := s.nodes[0].count("eth_getLogs")
	s.round()
	require.Equal(t, queries+2, s.nodes[0].count("eth_getLogs"))
	for range 5 {
		s.chain.mine(1)
		s.round()
	}
	require.Equal(t, queries+7, s.nodes[0].count("eth_getLogs"))
	require.Zero(t, s.nodes[0].count("eth_getTransactionReceipt"))
}

// A ledger that cannot keep them does not lose them.
func TestCandidatesThatCannotBeKeptAreReadAgain(t *testing.T) {
	t.Parallel()
	s := openRead(t, 1)
	s.chain.pay(price)
	s.chain.mine(1, s.chain.transaction(transfer(payTo, payer, price)))
	s.chain.finalize()
	s.book.broken = "NoteOutgoing"
	s.requireTrouble("ledger_unavailable (ledger)", true)
	require.Zero(t, s.cursor())
	s.book.broken = ""
	s.settle()
	require.Len(t, s.candidates(), 1)
}
