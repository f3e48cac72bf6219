package x402

import (
	"context"
	"fmt"
	"net/http"
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

func TestResolveAsksTheChainFirst(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		chain := newChain(t)
		s, f, b := leftOpen(t, chain, answerLost)
		chain.Transfer(b.key(), someTransaction, 42_000_000, false) // mined under a hash that nobody named
		s.run(10 * time.Second)
		stored := s.requireState(b, ledger.IntentSettled)
		require.Equal(t, ledger.EvidenceChain, stored.Evidence)
		require.Len(t, f.Calls(settleCall), 1, "nobody was asked to settle again")
		got := s.pay(b.v2(t))
		require.Equal(t, Settled, got.Status)
		require.Equal(t, "seen", got.Evidence)
		require.Equal(t, someTransaction, got.Response.Transaction)
	})
}

func TestDueResolvesOpenPayment(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		chain := newChain(t)
		s, _, b := leftOpen(t, chain, answerLost)
		s.ResolveEvery = time.Hour
		go s.Run(t.Context())
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		chain.Transfer(b.key(), someTransaction, 42_000_000, false)
		time.Sleep(5 * time.Minute)
		s.requireState(b, ledger.IntentSettling)
		s.Due()
		synctest.Wait()
		s.requireState(b, ledger.IntentSettled)
	})
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

func TestResolveRespectsLease(t *testing.T) {
	for _, owner := range []string{"instance-1", "instance-2"} {
		bubble(t, "by "+owner, func(t *testing.T) {
			f := payoffertest.NewPipedFacilitator(t, "one")
			f.Script(settleCall, payoffertest.FacilitatorReply{Fault: payoffertest.FaultHang}, payoffertest.FacilitatorReply{})
			atWork := newShop(t, setup{facilitators: one(f), timeout: 24 * time.Hour, owner: "instance-1"})
			resolver := newShop(t, setup{facilitators: one(f), ledger: atWork.book, owner: owner})
			go atWork.pay(newBuyer(1).v2(t))
			f.Await(settleCall, 1)
			resolver.run(4 * time.Minute)
			require.Len(t, f.Calls(settleCall), 1, "the first one may be at work for a day")
			f.Release()
			require.NoError(t, atWork.Wait(t.Context()))
		})
	}
}

func TestResolveTakesOverExpiredLease(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
		b := newBuyer(1)
		// What a process leaves that was killed between the commit and the call.
		p := must(decodePayment(b.v2(t)))(t)
		intent := s.newIntent(p, s.usdc())
		intent.Facilitator, intent.Owner = s.facilitators[0].Host(), "a process that was killed"
		require.NoError(t, s.book.InsertIntent(t.Context(), intent))

		s.run(30 * time.Second)
		require.Empty(t, f.Calls(settleCall), "its lease runs")
		s.run(90 * time.Second)
		s.requireState(b, ledger.IntentSettled)
		require.Equal(t, 1, f.Settled(b.auth.Nonce))
	})
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

func TestResolveProvesClaim(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s, _, chain, b := claimed(t)
		s.run(time.Minute)
		require.Equal(t, ledger.EvidenceFacilitator, s.requireState(b, ledger.IntentSettled).Evidence)
		chain.Down(false)
		chain.Transfer(b.key(), someTransaction, 42_000_000, true) // with a raised fee: another hash
		s.run(time.Minute)
		require.Equal(t, ledger.EvidenceChain, s.requireState(b, ledger.IntentSettled).Evidence)
		got := s.pay(b.v2(t))
		require.Equal(t, "seen", got.Evidence)
		require.Equal(t, someTransaction, got.Response.Transaction)
		receipts := s.receipts()
		require.Len(t, receipts, 1)
	})
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

// pendingReplies are answers to /settle that are neither a yes nor a no.
var pendingReplies = map[string]struct {
	reply  payoffertest.FacilitatorReply
	reason string
}{
	"202 with a yes":                {payoffertest.FacilitatorReply{Status: http.StatusAccepted}, "status_202"},
	"202 with a paymentId":          {payoffertest.FacilitatorReply{Status: http.StatusAccepted, Body: `{"paymentId":"p-1"}`}, "status_202"},
	"a yes with a paymentId":        {payoffertest.FacilitatorReply{Body: `{"success":true,"paymentId":"p-1",` + settledAs}, reasonPending},
	"a yes with settlement_pending": {payoffertest.FacilitatorReply{Body: `{"success":true,"errorReason":"settlement_pending",` + settledAs}, reasonPending},
	"a no with settlement_pending":  {payoffertest.FacilitatorReply{Body: `{"success":false,"errorReason":"settlement_pending",` + settledAs}, reasonPending},
	"401 with a yes":                {payoffertest.FacilitatorReply{Status: http.StatusUnauthorized}, "status_401"},
}

// settledAs is the rest of an answer that names a transaction.
var settledAs = `"transaction":"` + someTransaction + `","network":"eip155:84532"}`

// The payer keeps the payment, signs no other one, and the chain decides.
func TestPendingSettlementStaysOpen(t *testing.T) {
	for name, c := range pendingReplies {
		bubble(t, name, func(t *testing.T) {
			s, f, chain, b := onChain(t)
			f.Script(settleCall, c.reply)

			got := s.pay(b.v2(t))
			require.Equal(t, Open, got.Status, got.Detail)
			require.Equal(t, "settlement_unknown", got.Reason)
			require.Positive(t, got.RetryAfter)
			require.Nil(t, got.Response)
			require.Equal(t, c.reason, s.requireState(b, ledger.IntentSettling).Reason)

			calls := len(f.Calls(settleCall))
			second := s.pay(newBuyer(2).v2(t))
			require.Equal(t, Conflict, second.Status)
			require.Equal(t, "payer_has_open_payment", second.Reason)
			s.requireState(newBuyer(2), "")
			require.Len(t, f.Calls(settleCall), calls, "a second authorization is not sent")
			require.Equal(t, Open, s.pay(b.v2(t)).Status, "the first one is still open")

			chain.Transfer(b.key(), someTransaction, 42_000_000, false)
			s.run(10 * time.Second)
			shown := s.pay(b.v2(t))
			require.Equal(t, Settled, shown.Status, shown.Detail)
			require.Equal(t, "seen", shown.Evidence)
			require.Equal(t, someTransaction, shown.Response.Transaction)
			receipts := s.receipts()
			require.Len(t, receipts, 1, "one charge")
		})
	}
}

func TestPendingSettlementIsRetried(t *testing.T) {
	for name, c := range pendingReplies {
		withShop(t, name, func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
			b := newBuyer(1)
			f.Script(settleCall, c.reply)
			require.Equal(t, Open, s.pay(b.v2(t)).Status)
			require.Equal(t, c.reason, s.requireState(b, ledger.IntentSettling).Reason)

			f.Script(settleCall, payoffertest.FacilitatorReply{Idle: true, Transaction: someTransaction})
			s.run(10 * time.Second)
			got := s.pay(b.v2(t))
			require.Equal(t, Settled, got.Status)
			require.Equal(t, "claimed", got.Evidence)
			for _, call := range f.Calls(settleCall) {
				require.Equal(t, string(f.Calls(settleCall)[0].Body), string(call.Body))
			}
		})
	}
}
