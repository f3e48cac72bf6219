package x402

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// signed is another authorization of the buyer, signed now.
func signed(nonce int) *buyer { return newBuyer(nonce) }

// requireChargedBy requires a 200 that names an authorization.
func requireChargedBy(t *testing.T, b *buyer, got Outcome) {
	t.Helper()
	require.Equal(t, Settled, got.Status, got.Detail)
	require.Equal(t, strings.ToLower(b.auth.Nonce), got.Intent)
	require.Equal(t, "0xfac"+b.auth.Nonce[5:], got.Response.Transaction)
}

// unacknowledged is a shop whose buyer has sent one payment and was told to wait.
func unacknowledged(t *testing.T, payload func(*buyer) []byte) (*shop, *payoffertest.Facilitator, *buyer) {
	t.Helper()
	s, f, chain, a := onChain(t)
	settlesOn(f, chain, a)
	f.Script(settleCall, answerLost, payoffertest.FacilitatorReply{})
	got := s.pay(payload(a))
	require.Equal(t, Open, got.Status)
	require.Equal(t, a.auth.Nonce, got.Intent)
	return s, f, a
}

func TestNewPaymentIdentifierIsNewPurchase(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s, f, a := unacknowledged(t, func(b *buyer) []byte { return b.named("order_0123456789").v2(t) })
		other := signed(2).named("order_9876543210")
		require.Equal(t, Conflict, s.pay(other.v2(t)).Status, "while the first is open")
		require.Zero(t, s.requireState(a, ledger.IntentSettling).RejectedUntil, "the first one does not answer for it")
		s.run(20 * time.Second)
		settlesOn(f, s.usdc().Chain.(*payoffertest.Chain), other)
		requireChargedBy(t, other, s.pay(other.v2(t)))
		require.Len(t, f.Calls(settleCall), 2)
	})
}

// Two tries of one client may be under way together, and the first may be
// charged and told before the other one is verified.
func TestConcurrentAttemptIsNotChargedAgain(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s, f, chain, a := onChain(t)
		b := newBuyer(2)
		settlesOn(f, chain, b)
		f.Script(verifyCall, payoffertest.FacilitatorReply{Fault: payoffertest.FaultHang}, payoffertest.FacilitatorReply{})
		slow := make(chan Outcome)
		go func() { slow <- s.pay(a.v2(t)) }()
		f.Await(verifyCall, 1)
		requireChargedBy(t, b, s.pay(b.v2(t)))
		f.Release()
		requireChargedBy(t, b, <-slow)
		require.Len(t, f.Calls(settleCall), 1)
	})
}

// A stranger may ask for the 200 of what is public on the chain, and not read it.
func TestPayIgnoresSlowReader(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s, f, a := unacknowledged(t, func(b *buyer) []byte { return b.v2(t) })
		s.run(20 * time.Second)
		stranger := new(Response)
		requireChargedBy(t, a, s.Pay(t.Context(), Attempt{Payload: a.v2(t), Client: "192.0.2.9", Response: stranger}))
		start := time.Now()
		requireChargedBy(t, a, s.pay(signed(2).v2(t)))
		require.LessOrEqual(t, time.Since(start), acknowledgeWait)
		stranger.End(false)
		require.Len(t, f.Calls(settleCall), 1)
	})
}

// Whoever signs without an end is refused, and is not remembered: the first
// charge would answer for all that the payer ever signs.
func TestEndlessAuthorizationIsNotRemembered(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, chain, a, b := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1), newBuyer(3)
		settlesOn(f, chain, a)
		f.Script(settleCall, payoffertest.FacilitatorReply{Fault: payoffertest.FaultHangActed}, payoffertest.FacilitatorReply{})
		s := newShop(t, setup{facilitators: one(f), chain: chain})
		first := make(chan Outcome)
		go func() { first <- s.pay(a.v2(t)) }()
		f.Await(settleCall, 1)
		endless := signed(2)
		endless.auth.ValidBefore = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1)).String()
		require.Equal(t, Refused, s.pay(endless.v2(t)).Status)
		f.Release()
		requireChargedBy(t, a, <-first)
		settlesOn(f, chain, b)
		requireChargedBy(t, b, s.pay(b.v2(t)))
	})
}

// Some wallets write a signature's recovery id as 0 or 1, and the token takes 27
// and 28 alone: it is one payment, whoever writes it how.
func TestSignatureRecoveryIDIsNormalized(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, chain, a, again := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1), newBuyer(1)
		settlesOn(f, chain, a)
		s := newShop(t, setup{facilitators: one(f), chain: chain})
		a.signature = again.sign(t)[:130] + map[string]string{"1b": "00", "1c": "01"}[again.sign(t)[130:]]
		requireChargedBy(t, a, s.pay(a.v2(t)))
		require.Contains(t, sentIn(f, callSettle), again.sign(t))
		requireChargedBy(t, a, s.pay(again.v2(t)))
	})
}

func TestImpossibleClaimNeedsOperator(t *testing.T) {
	for name, reply := range map[string]payoffertest.FacilitatorReply{
		"the transaction of another payment": {Transaction: someTransaction},
		"the zero hash":                      {Transaction: zeroHash},
		"another payer":                      {Body: `{"success":true,"network":"eip155:84532","transaction":"` + otherTransaction + `","payer":"` + otherPayTo + `"}`},
	} {
		withShop(t, name, func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
			f.Script(settleCall, payoffertest.FacilitatorReply{Transaction: someTransaction}, reply)
			require.Equal(t, Settled, s.pay(stranger(1).v2(t)).Status)
			b := newBuyer(2)
			got := s.pay(b.v2(t))
			require.Equal(t, Open, got.Status)
			require.Nil(t, got.Response)
			require.Nil(t, s.requireState(b, ledger.IntentSettling).Answer)
		})
	}
}

const otherTransaction = "0x00000000000000000000000000000000000000000000000000000000000000ee"
