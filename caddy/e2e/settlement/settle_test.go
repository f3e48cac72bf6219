package settlement

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// shortTimeout is that of a facilitator that does not answer.
const shortTimeout = time.Second

// longTimeout is that of one that answers.
const longTimeout = 10 * time.Second

type reply = payoffertest.FacilitatorReply

func TestAPaymentIsSettledOnceAndAnsweredForEver(t *testing.T) {
	t.Parallel()
	s := openShop(t, longTimeout)
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
	s.service, _ = s.serve(2*cents, newAddress(t), s.chain.URL)
	s.requirePaid(p, transaction)
	require.Len(t, s.facilitator.Calls(payoffertest.CallVerify), 1)
	require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1)
	s.requireAgreement(1, 0)
}

// Where a facilitator's answer to settle says nothing certain and nothing was broadcast, the buyer is told to wait; the
// identical payload is sent again as soon as the chain was asked, and settled once.
func TestAnUncertainAnswerWithoutABroadcastIsRepeated(t *testing.T) {
	t.Parallel()
	for name, broken := range uncertain {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, shortTimeout)
			p := s.payment(s.chain.Buyers[0])
			broken.Idle = true
			s.facilitator.Script(payoffertest.CallSettle, broken)

			s.requireOpen(p)
			s.requireOpen(p)
			s.requireAgreement(0, 1)
			s.requireBlocked(p)
			require.LessOrEqual(t, len(s.facilitator.Calls(payoffertest.CallSettle)), 2)

			s.facilitator.Script(payoffertest.CallSettle, reply{})
			s.resolve(soon)
			s.requirePaid(p, s.awaitTransfers(1)[0].Tx)
			s.requireAgreement(1, 0)
		})
	}
}

// The same, but the facilitator never does its work: the definite no comes with the finalized end of the authorization,
// and frees the payer.
func TestAnUncertainAnswerBecomesANoOnlyByTheFinalizedChain(t *testing.T) {
	t.Parallel()
	for name, broken := range uncertain {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, shortTimeout)
			p := s.payment(s.chain.Buyers[0])
			broken.Idle = true
			s.facilitator.Script(payoffertest.CallSettle, broken)
			s.requireOpen(p)
			s.resolve(soon)
			s.requireOpen(p)

			// Past the end of its validity, but in no finalized block.
			s.expire()
			s.resolve(late)
			s.requireOpen(p)
			s.requireAgreement(0, 1)

			s.chain.Finalize(t)
			s.resolve(late)
			s.requireDead(p, "authorization_expired")
			s.requireAgreement(0, 0)
			s.book.requireIntent(t, p, ledger.IntentRefused)
		})
	}
}

// Where the facilitator did broadcast, the buyer gets the 200 of the transaction that happened, without a second one.
func TestAnUncertainAnswerAfterABroadcastIsFoundOnTheChain(t *testing.T) {
	t.Parallel()
	acted := map[string]reply{
		"close after the broadcast":          {Fault: payoffertest.FaultCloseActed},
		"no answer in time":                  {Fault: payoffertest.FaultHangActed},
		"success after the client's timeout": {Fault: payoffertest.FaultLate},
		"success without a transaction":      {NoTransaction: true},
		"success on another network":         {Network: "eip155:1"},
	}
	for name, broken := range uncertain {
		if broken.Fault == 0 && broken.Reason == "" {
			acted[name] = broken
		}
	}
	for name, broken := range acted {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, shortTimeout)
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

// uncertain are the answers to settle after which nobody knows what happened.
var uncertain = map[string]reply{
	"500":                     {Status: http.StatusInternalServerError, Body: "boom"},
	"502 with a success":      {Status: http.StatusBadGateway},
	"401":                     {Status: http.StatusUnauthorized, Body: "{}"},
	"403 with a success":      {Status: http.StatusForbidden},
	"404":                     {Status: http.StatusNotFound, Body: "no such path"},
	"202 with a success":      {Status: http.StatusAccepted},
	"202 with a paymentId":    {Status: http.StatusAccepted, Body: `{"paymentId":"p-1"}`},
	"429":                     {Status: http.StatusTooManyRequests, Body: "{}"},
	"a redirect":              {Status: http.StatusTemporaryRedirect, Location: "http://127.0.0.1:9/", Body: "{}"},
	"close after reading":     {Fault: payoffertest.FaultCloseRead},
	"hang":                    {Fault: payoffertest.FaultHang},
	"an empty body":           {Body: " "},
	"broken JSON":             {Body: `{"success":true,"transaction":"0x`},
	"no JSON":                 {Body: "<html>It works!</html>"},
	"an empty object":         {Body: "{}"},
	"success of a wrong type": {Body: `{"success":"true","transaction":"0x01","network":"eip155:84532"}`},
	"transaction of a wrong type": {
		Body: `{"success":true,"transaction":7,"network":"eip155:84532"}`,
	},
	"transaction of a wrong form": {Transaction: "0x1234"},
	"no after verify's yes":       {Reason: "invalid_exact_evm_transaction_failed"},
	"nonce used":                  {Reason: "invalid_exact_evm_nonce_already_used"},
	"settlement_pending":          {Reason: "settlement_pending"},
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
