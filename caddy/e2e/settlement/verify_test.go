package settlement

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Before settle was sent nothing can have been charged: the buyer is told so, no row is left, and the same payment
// settles as soon as the facilitator works again.
func TestAFacilitatorThatCannotVerifyCostsNothing(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]reply{
		"500":                 {Status: http.StatusInternalServerError, Body: "boom"},
		"502 with a yes":      {Status: http.StatusBadGateway},
		"close unread":        {Fault: payoffertest.FaultCloseUnread},
		"close after reading": {Fault: payoffertest.FaultCloseRead},
		"hang":                {Fault: payoffertest.FaultHang},
		"broken JSON":         {Body: `{"isValid":tr`},
		"a wrong type":        {Body: `{"isValid":"true"}`},
		"an empty object":     {Body: "{}"},
		"the caller refused":  {Status: http.StatusUnauthorized, Body: "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, shortTimeout)
			p := s.payment(s.chain.Buyers[0])
			s.facilitator.Script(payoffertest.CallVerify, broken, reply{})

			outcome := s.pay(p)
			require.Equal(t, x402.Unavailable, outcome.Status, "%+v", outcome)
			require.Empty(t, s.facilitator.Calls(payoffertest.CallSettle))
			s.book.requireUnknown(t, p)
			s.requireAgreement(0, 0)

			outcome = s.pay(p)
			require.Equal(t, x402.Settled, outcome.Status, "%+v", outcome)
			s.requireAgreement(1, 0)
		})
	}
}

func TestARefusalOfVerifyIsFinalForNobody(t *testing.T) {
	t.Parallel()
	s := openShop(t, longTimeout)
	p := s.payment(s.chain.Buyers[0])
	s.facilitator.Script(payoffertest.CallVerify, reply{Reason: "invalid_exact_evm_insufficient_balance"}, reply{})

	outcome := s.pay(p)
	require.Equal(t, x402.Refused, outcome.Status, "%+v", outcome)
	require.Equal(t, "invalid_exact_evm_insufficient_balance", outcome.Reason)
	s.book.requireUnknown(t, p)

	outcome = s.pay(p)
	require.Equal(t, x402.Settled, outcome.Status, "%+v", outcome)
	s.requireAgreement(1, 0)
}

// A facilitator that works every other time makes no payment twice and loses none.
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
