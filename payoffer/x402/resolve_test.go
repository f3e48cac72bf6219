package x402

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// leftOpen is a payment whose outcome nobody knows, with what stands around it.
func leftOpen(t *testing.T, chain *payoffertest.Chain, reply payoffertest.FacilitatorReply) (*shop, *payoffertest.Facilitator, *buyer) {
	t.Helper()
	f, b := payoffertest.NewPipedFacilitator(t, "one"), newBuyer(1)
	f.Script(settleCall, reply, payoffertest.FacilitatorReply{})
	s := newShop(t, setup{facilitators: one(f), chain: chain})
	require.Equal(t, Open, s.pay(b.v2(t)).Status)
	return s, f, b
}

var (
	answerLost = payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseActed}
	neverSent  = payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseRead}
)

// run resolves in the background for as long as the buyer sleeps.
func (s *shop) run(d time.Duration) {
	ctx, stop := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	time.Sleep(d)
	stop()
	<-done
}

func TestResolveRepeatsIdenticalPayload(t *testing.T) {
	for name, chain := range map[string]func(t *testing.T) *payoffertest.Chain{
		"without a chain":                  func(*testing.T) *payoffertest.Chain { return nil },
		"with a chain that cannot be read": func(t *testing.T) *payoffertest.Chain { c := newChain(t); c.Down(true); return c },
	} {
		bubble(t, name, func(t *testing.T) {
			s, f, b := leftOpen(t, chain(t), neverSent)
			s.run(10 * time.Second)
			s.requireState(b, ledger.IntentSettled)
			calls := f.Calls(settleCall)
			require.Len(t, calls, 2)
			require.Equal(t, calls[0].Body, calls[1].Body)
		})
	}
}

func TestResolveDoesNotSendExpiredPayment(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		chain := newChain(t)
		s, f, b := leftOpen(t, chain, neverSent)
		time.Sleep(5 * time.Minute)
		s.run(10 * time.Minute)
		require.Len(t, f.Calls(settleCall), 1)
		require.Equal(t, Open, s.pay(b.v2(t)).Status, "expired by our clock is no definite no")
		require.Positive(t, chain.Calls("dead"))

		chain.Kill(b.key(), "authorization_expired")
		s.run(5 * time.Minute)
		s.requireState(b, ledger.IntentRefused)
		got := s.pay(b.v2(t))
		require.Equal(t, Refused, got.Status)
		require.Equal(t, "authorization_expired", got.Reason)
		require.False(t, got.Response.Success)
		require.Equal(t, "eip155:84532", got.Response.Network)
		require.Equal(t, Open, s.pay(newBuyer(2).v2(t)).Status, "the payer is free: it fails by the chain alone")
		require.Len(t, f.Calls(settleCall), 2)
	})
}

func TestResolveUsesOriginalFacilitator(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		one, two := payoffertest.NewPipedFacilitator(t, "one"), payoffertest.NewPipedFacilitator(t, "two")
		one.Script(settleCall, neverSent)
		both := newShop(t, setup{facilitators: []*payoffertest.Facilitator{one, two}})
		b := newBuyer(1)
		require.Equal(t, Open, both.pay(b.v2(t)).Status)
		both.run(20 * time.Second)
		require.Greater(t, len(one.Calls(settleCall)), 1)

		asked := len(one.Calls(settleCall))
		other := newShop(t, setup{facilitators: []*payoffertest.Facilitator{two}, ledger: both.book, owner: "instance-2"})
		other.run(time.Minute)
		require.Len(t, one.Calls(settleCall), asked)
		require.Empty(t, two.Calls(settleCall))
		both.requireState(b, ledger.IntentSettling)
	})
}

func TestResolveRemovedRail(t *testing.T) {
	for _, remembered := range []bool{true, false} {
		bubble(t, fmt.Sprint("remembered ", remembered), func(t *testing.T) {
			before, f, b := leftOpen(t, nil, neverSent)
			after := newShop(t, setup{
				facilitators: one(f), ledger: before.book, payTo: otherPayTo, owner: "instance-2",
				former: func(account string) (Rail, bool) {
					return Rail{USDC: before.rails[0], Facilitators: before.facilitators}, remembered && account == before.rails[0].Account()
				},
			})
			after.run(10 * time.Second)
			require.Equal(t, remembered, after.pay(b.v2(t)).Status == Settled)
			require.Equal(t, remembered, f.Settled(b.auth.Nonce) == 1)
		})
	}
}

// claimed is a payment that a facilitator vouches for and the chain could not
// confirm at the time.
func claimed(t *testing.T) (*shop, *payoffertest.Facilitator, *payoffertest.Chain, *buyer) {
	t.Helper()
	s, f, chain, b := onChain(t)
	chain.Down(true)
	got := s.pay(b.v2(t))
	require.Equal(t, Settled, got.Status)
	require.Equal(t, "claimed", got.Evidence)
	return s, f, chain, b
}

func TestResolveRetractsFalseClaim(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s, f, chain, b := claimed(t)
		chain.Down(false)
		s.run(time.Minute)
		require.Equal(t, Settled, s.pay(b.v2(t)).Status, "not to be found is no definite no")
		chain.Kill(b.key(), "authorization_expired")
		time.Sleep(10 * time.Minute)
		s.run(5 * time.Minute)
		s.requireState(b, ledger.IntentRefused)
		require.Equal(t, Refused, s.pay(b.v2(t)).Status)
		require.Len(t, f.Calls(settleCall), 1)
	})
}

func TestResolveRefusesWrongAmount(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		chain := newChain(t)
		s, _, b := leftOpen(t, chain, payoffertest.FacilitatorReply{Reason: "invalid_exact_evm_nonce_already_used"})
		chain.Transfer(b.key(), someTransaction, 1, false)
		s.Resolve(t.Context())
		time.Sleep(4 * time.Minute)
		s.Resolve(t.Context())
		s.requireState(b, ledger.IntentSettling)
		chain.Transfer(b.key(), someTransaction, 1, true)
		time.Sleep(4 * time.Minute)
		s.Resolve(t.Context())
		s.requireState(b, ledger.IntentRefused)
		require.Equal(t, Refused, s.pay(b.v2(t)).Status)
	})
}

func TestResolveHangingPaymentBlocksNoOther(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		slow, quick := payoffertest.NewPipedFacilitator(t, "slow"), payoffertest.NewPipedFacilitator(t, "quick")
		slow.Script(settleCall, neverSent, payoffertest.FacilitatorReply{Fault: payoffertest.FaultHang})
		quick.Script(settleCall, neverSent, payoffertest.FacilitatorReply{})
		first := newShop(t, setup{facilitators: one(slow)})
		require.Equal(t, Open, first.pay(newBuyer(1).v2(t)).Status)
		second := newShop(t, setup{facilitators: []*payoffertest.Facilitator{quick, slow}, ledger: first.book, owner: "instance-2"})
		other := newBuyer(2)
		other.signer, other.auth.From = otherKey, otherKeyAddress
		require.Equal(t, Open, second.pay(other.v2(t)).Status)

		time.Sleep(5 * time.Second)
		go second.Resolve(t.Context())
		slow.Await(settleCall, 2)
		synctest.Wait()
		second.requireState(other, ledger.IntentSettled)
	})
}
