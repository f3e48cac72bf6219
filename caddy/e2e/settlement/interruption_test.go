package settlement

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// A client may leave at any time. Before the intent is committed nothing is sent; after it the settlement ends without
// the client, and the same payment gets its answer.
func TestAClientThatLeavesLosesNothing(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]struct {
		// when arranges that leave is called at the step.
		when func(s *shop, leave func() error)
		// during is the call of the facilitator during which the client leaves, or empty.
		during string
		// sent says that the payment is settled all the same.
		sent bool
	}{
		"before verify": {when: func(s *shop, leave func() error) { s.book.onDone("Look", leave) }},
		"during verify": {during: payoffertest.CallVerify},
		"after verify":  {when: func(s *shop, leave func() error) { s.book.on("InsertIntent", leave) }},
		"after insert":  {when: func(s *shop, leave func() error) { s.book.onDone("InsertIntent", leave) }, sent: true},
		"during settle": {during: payoffertest.CallSettle, sent: true},
		"after settle":  {when: func(s *shop, leave func() error) { s.book.on("Record", leave) }, sent: true},
		"after record":  {when: func(s *shop, leave func() error) { s.book.onDone("Record", leave) }, sent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, longTimeout)
			p := s.payment(s.chain.Buyers[0])
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if leaves.when != nil {
				leaves.when(s, func() error { cancel(); return nil })
			} else {
				s.facilitator.Script(leaves.during, reply{Fault: payoffertest.FaultHang})
				go func() {
					s.facilitator.Await(leaves.during, 1)
					cancel()
				}()
			}
			outcome := s.service.Pay(ctx, p.attempt())
			switch {
			case !leaves.sent:
				require.Contains(t, []x402.Status{x402.Unavailable, x402.Open}, outcome.Status, "%+v", outcome)
			case outcome.Status != x402.Settled: // it was quicker
				require.Equal(t, x402.Open, outcome.Status, "%+v", outcome)
			}
			s.facilitator.Release()
			s.facilitator.Script(payoffertest.CallVerify, reply{})
			require.NoError(t, s.service.Wait(t.Context()))
			if leaves.sent {
				s.requireAgreement(1, 0)
			} else {
				s.requireAgreement(0, 0)
				s.book.requireUnknown(t, p)
			}
			outcome = s.pay(p)
			require.Equal(t, x402.Settled, outcome.Status, "%+v", outcome)
			s.requireAgreement(1, 0)
			require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1)
		})
	}
}

// An intent that was committed although the ledger reported a failure was not sent: it is taken back before the buyer is
// answered, and where the ledger refuses that too, it is settled later, once.
func TestAnIntentWhoseCommitSeemedToFailIsSettledOnce(t *testing.T) {
	t.Parallel()
	for name, takenBack := range map[string]bool{"taken back": true, "left": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, longTimeout)
			p := s.payment(s.chain.Buyers[0])
			s.book.onDone("InsertIntent", refuse)
			if !takenBack {
				s.book.on("WithdrawIntent", refuse)
			}
			outcome := s.pay(p)
			require.Equal(t, x402.Unavailable, outcome.Status, "%+v", outcome)
			require.Empty(t, s.facilitator.Calls(payoffertest.CallSettle))
			s.book.onDone("InsertIntent", nil)
			if takenBack {
				s.requireAgreement(0, 0)
				s.book.requireUnknown(t, p)
				outcome = s.pay(p)
				require.Equal(t, x402.Settled, outcome.Status, "%+v", outcome)
			} else {
				s.requireAgreement(0, 1)
				s.resolve(late) // the lease has expired
				s.requirePaid(p, s.awaitTransfers(1)[0].Tx)
			}
			s.requireAgreement(1, 0)
			require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1)
		})
	}
}

// A buyer who was charged is told so, whether or not the ledger takes it; it is recorded later.
func TestALedgerThatRefusesTheReceiptDoesNotHideThePayment(t *testing.T) {
	t.Parallel()
	s := openShop(t, longTimeout)
	p := s.payment(s.chain.Buyers[0])
	s.book.on("Record", refuse)
	transaction := s.paidFirst(p)
	s.book.requireIntent(t, p, ledger.IntentSettling)
	require.Empty(t, s.receipts())
	s.resolve(late)
	s.clock.pass(late) // a resend waits for whoever holds the lease
	s.requireOpen(p)

	s.book.on("Record", nil)
	s.resolve(late)
	s.requirePaid(p, transaction)
	s.requireAgreement(1, 0)
	require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1)
}

func TestARecordWhoseCommitSeemedToFailIsOneReceipt(t *testing.T) {
	t.Parallel()
	s := openShop(t, longTimeout)
	p := s.payment(s.chain.Buyers[0])
	failed := false
	s.book.onDone("Record", func() error {
		if failed {
			return nil
		}
		failed = true
		return errRefused
	})
	transaction := s.paidFirst(p)
	s.requirePaid(p, transaction)
	s.requireAgreement(1, 0)
	require.EqualValues(t, 1, s.receipts()[0].Version)
}

func refuse() error { return errRefused }

func TestALedgerThatRefusesBeforeTheSettlementStopsIt(t *testing.T) {
	t.Parallel()
	// Whether a payment was sent before is known to the ledger alone.
	for method, want := range map[string]x402.Status{"Look": x402.Open, "InsertIntent": x402.Unavailable} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, longTimeout)
			p := s.payment(s.chain.Buyers[0])
			s.book.on(method, refuse)
			outcome := s.pay(p)
			require.Equal(t, want, outcome.Status, "%+v", outcome)
			require.Empty(t, s.facilitator.Calls(payoffertest.CallSettle))
			s.requireAgreement(0, 0)
			s.book.requireUnknown(t, p)

			s.book.on(method, nil)
			outcome = s.pay(p)
			require.Equal(t, x402.Settled, outcome.Status, "%+v", outcome)
			s.requireAgreement(1, 0)
		})
	}
}

func TestAFlappingFacilitatorSettlesEachPaymentOnce(t *testing.T) {
	t.Parallel()
	s := openShop(t, longTimeout)
	down := reply{Status: http.StatusServiceUnavailable, Body: "down"}
	const count = 6
	var verify, settle []reply
	for range count {
		verify = append(verify, down, reply{})
		settle = append(settle, down, reply{Reason: "settlement_pending", Idle: true}, reply{})
	}
	s.facilitator.Script(payoffertest.CallVerify, append(verify, reply{})...)
	s.facilitator.Script(payoffertest.CallSettle, append(settle, reply{})...)
	var payments []payment
	for range count {
		payments = append(payments, s.payment(s.chain.NewBuyer(t)))
	}
	paid := 0
	for range 20 {
		paid = 0
		for _, p := range payments {
			switch outcome := s.pay(p); outcome.Status {
			case x402.Settled:
				paid++
			case x402.Open, x402.Unavailable:
			default:
				require.Fail(t, "not an answer that lets the buyer come back", "%+v", outcome)
			}
		}
		if paid == count {
			break
		}
		s.resolve(soon / 2)
	}
	require.Equal(t, count, paid)
	s.requireAgreement(count, 0)
}
