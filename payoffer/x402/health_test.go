package x402

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

var (
	works = payoffertest.FacilitatorReply{}
	fails = payoffertest.FacilitatorReply{Status: 500, Body: "oops"}
)

// stranger is a payer of its own.
func stranger(nonce int) *buyer {
	b := newBuyer(nonce)
	b.signer = crypto.ToECDSAUnsafe(crypto.Keccak256([]byte(b.auth.Nonce)))
	b.auth.From = crypto.PubkeyToAddress(b.signer.PublicKey).Hex()
	return b
}

func twoFacilitators(t *testing.T) (one, two *payoffertest.Facilitator, s *shop) {
	one, two = payoffertest.NewPipedFacilitator(t, "one"), payoffertest.NewPipedFacilitator(t, "two")
	return one, two, newShop(t, setup{facilitators: []*payoffertest.Facilitator{one, two}})
}

// requireHealth compares the reasons of a shop's facilitators.
func (s *shop) requireHealth(reasons ...string) {
	s.t.Helper()
	var got []string
	for _, health := range s.Facilitators() {
		got = append(got, health.Reason)
	}
	require.Equal(s.t, reasons, got)
}

// open makes a call fail until the circuit of the only facilitator opens.
func (s *shop) open(f *payoffertest.Facilitator, call string) {
	s.t.Helper()
	f.Script(call, fails)
	for n := range openAfter {
		require.Len(s.t, f.Calls(call), n)
		s.requireHealth("")
		require.NotEqual(s.t, Settled, s.pay(stranger(100+n).v2(s.t)).Status)
	}
	require.Len(s.t, f.Calls(call), openAfter)
	s.requireHealth("bad_answer_status_500")
}

func TestAFacilitatorThatFailsInARowIsNotAskedForAWhile(t *testing.T) {
	for _, call := range []string{verifyCall, settleCall} {
		bubble(t, call, func(t *testing.T) {
			f := payoffertest.NewPipedFacilitator(t, "one")
			s := newShop(t, setup{facilitators: one(f), limiter: limited(openAfter+1, 24*time.Hour)})
			s.open(f, call)
			verified := len(f.Calls(verifyCall))

			f.Script(call, works)
			start := time.Now()
			for range 3 { // and it spends no attempt
				require.Equal(t, Unavailable, s.pay(stranger(2).v2(t)).Status)
			}
			got := s.pay(stranger(1).v2(t))
			require.Equal(t, Unavailable, got.Status)
			require.Equal(t, "facilitator_unavailable", got.Reason)
			require.Zero(t, time.Since(start), "nobody waits for it")
			require.GreaterOrEqual(t, got.RetryAfter, pauseFirst*4/5)
			require.LessOrEqual(t, got.RetryAfter, pauseFirst*6/5)
			require.Len(t, f.Calls(verifyCall), verified)
			s.requireState(stranger(1), "")

			time.Sleep(got.RetryAfter)
			require.Equal(t, Settled, s.pay(stranger(1).v2(t)).Status, "a client that waited is served")
			s.requireHealth("")
		})
	}
}

func TestFailuresThatAreNotInARowLeaveTheCircuitClosed(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		refuses := payoffertest.FacilitatorReply{Reason: "insufficient_funds"}
		f.Script(verifyCall, fails, fails, fails, fails, refuses, fails, fails, fails, fails, works)
		s := newShop(t, setup{facilitators: one(f)})
		for n := range 9 {
			s.pay(stranger(n).v2(t))
		}
		require.Equal(t, Settled, s.pay(stranger(9).v2(t)).Status)
	})
}

func TestOneRequestTriesAnOpenCircuit(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		s := newShop(t, setup{facilitators: one(f)})
		s.open(f, verifyCall)
		f.Script(verifyCall, payoffertest.FacilitatorReply{Fault: payoffertest.FaultHang})
		time.Sleep(pauseFirst * 2)

		outcomes := make([]Outcome, 20)
		var work sync.WaitGroup
		for n := range outcomes {
			work.Go(func() { outcomes[n] = s.pay(stranger(n).v2(t)) })
		}
		synctest.Wait()
		require.Len(t, f.Calls(verifyCall), openAfter+1)
		f.Release()
		work.Wait()
		settled := 0
		for _, outcome := range outcomes {
			if outcome.Status == Settled {
				settled++
			} else {
				require.Equal(t, Unavailable, outcome.Status)
				require.Equal(t, defaultTimeout, outcome.RetryAfter, "as long as the trial may take")
			}
		}
		require.Equal(t, 1, settled)
		s.requireHealth("")
	})
}

func TestPausesGrowUntilACallSucceeds(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		s := newShop(t, setup{facilitators: one(f)})
		s.open(f, verifyCall)
		n := 200
		next := func() Outcome { n++; return s.pay(stranger(n).v2(t)) }
		for _, want := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
			wait := next().RetryAfter
			require.GreaterOrEqual(t, wait, want*time.Second*4/5)
			require.LessOrEqual(t, wait, want*time.Second*6/5)
			time.Sleep(wait)
			require.Equal(t, Unavailable, next().Status)
		}
		f.Script(verifyCall, works)
		time.Sleep(2 * pauseMost)
		require.Equal(t, Settled, next().Status)

		f.Script(verifyCall, fails)
		for range openAfter {
			next()
		}
		require.LessOrEqual(t, next().RetryAfter, pauseFirst*6/5, "it begins anew")
	})
}

func TestTheNextFacilitatorIsAskedWhileACircuitIsOpen(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		one, _, s := twoFacilitators(t)
		one.Script(verifyCall, fails)
		for n := range openAfter + 5 {
			require.Equal(t, Settled, s.pay(stranger(n).v2(t)).Status)
		}
		require.Len(t, one.Calls(verifyCall), openAfter)
		s.requireHealth("bad_answer_status_500", "")
		one.Script(verifyCall, works)
		time.Sleep(time.Hour)
		require.Equal(t, Settled, s.pay(stranger(50).v2(t)).Status)
		require.Len(t, one.Calls(verifyCall), openAfter, "only a probe brings it back while another one works")

		s.run(time.Minute)
		require.Equal(t, Settled, s.pay(stranger(51).v2(t)).Status)
		require.Len(t, one.Calls(settleCall), 1)
	})
}

func TestAClientThatLeavesSaysNothingOfTheFacilitator(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		f.Script(verifyCall, payoffertest.FacilitatorReply{Fault: payoffertest.FaultHang})
		s := newShop(t, setup{facilitators: one(f)})
		for n := range 2 * openAfter {
			ctx, leave := context.WithTimeout(t.Context(), time.Second)
			require.Equal(t, Unavailable, s.Pay(ctx, Attempt{Payload: stranger(n).v2(t)}).Status)
			leave()
		}
		s.requireHealth("")
	})
}

func TestAnOpenIntentIsRepeatedToItsFacilitatorWhateverItsHealth(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		one, two, s := twoFacilitators(t)
		one.Script(payoffertest.CallSupported, fails)
		one.Script(settleCall, payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseRead}, works)
		b := stranger(1)
		require.Equal(t, Open, s.pay(b.v2(t)).Status)
		s.run(time.Minute)
		require.Equal(t, "one.localhost", s.requireState(b, ledger.IntentSettled).Facilitator)
		require.Len(t, one.Calls(settleCall), 2)
		require.Empty(t, two.Calls(settleCall))
	})
}
