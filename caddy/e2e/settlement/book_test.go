package settlement

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// book is a ledger that is compared with the chain.
type book struct{ *ledger.Ledger }

// openBook opens a ledger of its own for the test.
func openBook(t *testing.T, now func() time.Time) *book {
	t.Helper()
	b := &book{ledger.NewSQLite(payoffertest.LedgerFile(t), now)}
	require.NoError(t, b.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// requireUnknown requires that the ledger has no row of a payment.
func (b *book) requireUnknown(t *testing.T, p payment) {
	t.Helper()
	_, known, err := b.Ledger.Intent(t.Context(), p.key())
	require.NoError(t, err)
	require.False(t, known, "the ledger holds a payment that was not sent")
}

// requireIntent requires that the ledger knows a payment in a state.
func (b *book) requireIntent(t *testing.T, p payment, state ledger.IntentState) ledger.Intent {
	t.Helper()
	i, known, err := b.Ledger.Intent(t.Context(), p.key())
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, state, i.State, "%+v", i)
	return i
}

// requireReceipts requires that the receipts on a chain are its transfers, and that the sums are theirs.
func (b *book) requireReceipts(t *testing.T, c *chain.Chain, transfers []chain.Transfer) {
	t.Helper()
	rows := lab.Must(b.Receipts(t.Context(), offerID, 0, 100))(t)
	var want, got []string
	for _, transfer := range transfers {
		want = append(want, fmt.Sprintf("eip155:%d:%s:%d", c.ID, transfer.Tx.Hex(), transfer.Ordinal))
	}
	accounts := map[string]bool{}
	prefix := fmt.Sprintf("eip155:%d:", c.ID)
	for _, row := range rows {
		if row.Status == ledger.StatusDropped || len(row.ExternalID) < len(prefix) || row.ExternalID[:len(prefix)] != prefix {
			continue
		}
		require.Equal(t, ledger.StatusConfirmed, row.Status)
		require.EqualValues(t, price, row.Amount)
		accounts[row.Account] = true
		got = append(got, row.ExternalID)
	}
	require.ElementsMatch(t, want, got, "the receipts are the transfers on the chain")

	totals := lab.Must(b.Totals(t.Context(), offerID))(t)
	var count, amount int64
	for _, total := range totals {
		if accounts[total.Account] && total.Status == ledger.StatusConfirmed {
			count, amount = count+total.Count, amount+total.Amount
		}
	}
	require.EqualValues(t, len(transfers), count, "the number in the sums")
	require.EqualValues(t, len(transfers)*price, amount, "the money in the sums")
}

// requireOpenIntents requires that so many payments are open, and that the sums say the same.
func (b *book) requireOpenIntents(t *testing.T, count int) {
	t.Helper()
	open := lab.Must(b.OpenIntents(t.Context(), offerID, 0, 100))(t)
	require.Len(t, open, count)
	totals := lab.Must(b.Totals(t.Context(), offerID))(t)
	var settling int64
	for _, total := range totals {
		if total.Status == ledger.StatusSettling {
			settling += total.Count
		}
	}
	require.EqualValues(t, count, settling, "the open payments in the sums")
}

var _ x402.Ledger = (*book)(nil)

type reply = payoffertest.FacilitatorReply

func TestPaymentSettledOnce(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	p := s.payment(s.chain.Buyers[0])

	outcome := s.pay(p)
	require.Equal(t, x402.Settled, outcome.Status, "%+v", outcome)
	require.Equal(t, "seen", outcome.Evidence)
	transaction := s.awaitTransfers(1)[0].Tx
	s.requirePaid(p, transaction)
	s.requireAgreement(1, 0)

	// An hour later, past its validBefore, after a change of the price and of the address.
	s.clock.pass(time.Hour)
	require.Less(t, p.ValidBefore, s.clock.Now().Unix())
	s.service, _ = s.serve(2*cents, chain.NewAddress(t), s.chain.URL)
	s.requirePaid(p, transaction)
	require.Len(t, s.facilitator.Calls(payoffertest.CallVerify), 1)
	require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1)
	s.requireAgreement(1, 0)
}

// Where the facilitator did broadcast, the buyer gets the 200 of the transaction that happened, without a second one.
func TestUncertainSettleFoundOnChain(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]reply{
		"close after the broadcast":     {Fault: payoffertest.FaultCloseActed},
		"success without a transaction": {NoTransaction: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t)
			p := s.payment(s.chain.Buyers[0])
			s.facilitator.Script(payoffertest.CallSettle, broken)

			s.requireOpen(p)
			transaction := s.awaitTransfers(1)[0].Tx
			s.requireBlocked(p)
			s.resolve(soon)
			s.requirePaid(p, transaction)
			s.requireAgreement(1, 0)
			require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1, "the chain was asked before the facilitator")
		})
	}
}

// requireBlocked requires that another payment of the same payer is not sent while one is open.
func (s *shop) requireBlocked(p payment) {
	s.Helper()
	before := len(s.facilitator.Calls(payoffertest.CallSettle))
	other := s.payment(s.chain.Buyers[0])
	require.Equal(s, p.From, other.From)
	outcome := s.pay(other)
	require.Equal(s, x402.Conflict, outcome.Status, "%+v", outcome)
	require.Equal(s, p.Nonce.Hex(), outcome.Intent, "it names the payment that is open")
	require.Len(s, s.facilitator.Calls(payoffertest.CallSettle), before)
	s.book.requireUnknown(s.T, other)
}
