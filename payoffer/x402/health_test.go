package x402

import (
	"fmt"
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
	hangs = payoffertest.FacilitatorReply{Fault: payoffertest.FaultHang}
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

func TestFacilitatorDownAfterFailedProbe(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		reply        payoffertest.FacilitatorReply
	}{
		{"status 500", "bad_answer_status_500", fails},
		{"status 202", "status_202", payoffertest.FacilitatorReply{Status: 202}},
		{"status 401", "status_401", payoffertest.FacilitatorReply{Status: 401}},
		{"no answer", "timeout", hangs},
		{"no list", "bad_answer_status_200", payoffertest.FacilitatorReply{Body: `{}`}},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := payoffertest.NewPipedFacilitator(t, "one")
			f.Script(supportedCall, c.reply)
			s := newShop(t, setup{facilitators: one(f), limiter: limited(2, 24*time.Hour)})
			s.watching()
			time.Sleep(verifyTimeout) // for one that does not answer
			synctest.Wait()
			s.requireHealth(c.reason)
			got := s.pay(stranger(1).v2(t))
			require.Equal(t, Unavailable, got.Status)
			require.Equal(t, "facilitator_unavailable", got.Reason)
			require.GreaterOrEqual(t, got.RetryAfter, probeGap)
			require.LessOrEqual(t, got.RetryAfter, maxPause)
			require.Empty(t, f.Calls(verifyCall))
			s.requireState(stranger(1), "")
			require.Contains(t, s.logs.String(), "facilitator is down")
			require.Contains(t, s.logs.String(), c.reason)

			f.Script(supportedCall, works)
			time.Sleep(maxPause)
			synctest.Wait()
			s.requireHealth("")
			require.Contains(t, s.logs.String(), "is up again")
			require.Equal(t, Settled, s.pay(stranger(1).v2(t)).Status)
		})
	}
}

func TestPayFallsBackToNextFacilitator(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		one, two, s := twoFacilitators(t)
		one.Script(supportedCall, fails)
		s.watching()
		s.requireHealth("bad_answer_status_500", "")
		require.Equal(t, Settled, s.pay(stranger(1).v2(t)).Status)
		require.Empty(t, one.Calls(verifyCall))
		require.Len(t, two.Calls(settleCall), 1)

		one.Script(supportedCall, works)
		time.Sleep(maxPause)
		require.Equal(t, Settled, s.pay(stranger(2).v2(t)).Status)
		require.Len(t, one.Calls(settleCall), 1)
	})
}

// request is a payment as a facilitator gets it.
func (s *shop) request(b *buyer) facilitatorRequest {
	s.t.Helper()
	p, err := decodePayment(b.v2(s.t))
	require.NoError(s.t, err)
	rail := s.usdc()
	return facilitatorRequest{2, p.rebuild(&rail.terms, nil), rail.terms.in(2)}
}

func TestUnfundedPayersCallLimit(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
		slow := make([]payoffertest.FacilitatorReply, maxUnfunded)
		for n := range slow {
			slow[n] = hangs
		}
		f.Script(verifyCall, append(slow, works)...)
		begin := time.Now()
		errs := make([]error, maxCalls)
		var attackers sync.WaitGroup
		for n := range errs {
			attackers.Go(func() {
				_, errs[n] = s.facilitators[0].verify(t.Context(), s.request(stranger(n)), false)
			})
		}
		synctest.Wait()
		require.Len(t, f.Calls(verifyCall), maxUnfunded, "the others wait")

		said, err := s.facilitators[0].verify(t.Context(), s.request(stranger(1000)), true)
		require.NoError(t, err)
		require.True(t, said.yes)
		_, err = s.facilitators[0].settle(t.Context(), s.request(stranger(1000)))
		require.NoError(t, err)
		require.Zero(t, time.Since(begin), "who has money does not wait")

		attackers.Wait()
		counts := map[string]int{}
		for _, err := range errs {
			counts[fmt.Sprint(err)]++
		}
		require.Equal(t, maxUnfunded, counts["timeout"])
		require.Equal(t, maxCalls-maxUnfunded, counts["busy"]+counts["<nil>"], "%v", counts)
	})
}

func TestFacilitatorCallLimit(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		const timeout = 20 * time.Second
		f := payoffertest.NewPipedFacilitator(t, "one")
		s := newShop(t, setup{facilitators: one(f), timeout: timeout})
		f.Script(settleCall, hangs)
		settle := func(n int) error {
			_, err := s.facilitators[0].settle(t.Context(), s.request(stranger(n)))
			return err
		}
		for n := range maxCalls {
			go func() { _ = settle(n) }()
		}
		synctest.Wait()
		require.Len(t, f.Calls(settleCall), maxCalls)
		begin := time.Now()
		_, err := s.facilitators[0].verify(t.Context(), s.request(stranger(1000)), true)
		require.Equal(t, errBusy, err)
		require.Equal(t, verifyTimeout, time.Since(begin))

		go func() { time.Sleep(time.Second); f.Release() }()
		require.NoError(t, settle(1001), "it has its turn when another one ends")
		synctest.Wait()
		_, err = s.facilitators[0].verify(t.Context(), s.request(stranger(1000)), false)
		require.NoError(t, err, "who gave up holds nothing")
		f.Script(settleCall, works)
		for n := range 2 * maxCalls {
			require.NoError(t, settle(2000+n), "every slot is given back")
		}
	})
}

func TestOpenIntentRetriesDownFacilitator(t *testing.T) {
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

func TestBusyFacilitatorIsSkipped(t *testing.T) {
	bubble(t, "to verify", func(t *testing.T) {
		one, two, s := twoFacilitators(t)
		for range maxUnfunded {
			s.facilitators[0].slots.unfunded <- struct{}{}
		}
		require.Equal(t, Settled, s.pay(stranger(1).v2(t)).Status)
		require.Empty(t, one.Calls(verifyCall))
		require.Len(t, two.Calls(settleCall), 1)
	})
	bubble(t, "to settle", func(t *testing.T) {
		one, _, s := twoFacilitators(t)
		s.watching()
		one.Script(verifyCall, hangs)
		all := s.facilitators[0].slots.all
		for range maxCalls - 1 {
			all <- struct{}{}
		}
		b := stranger(1)
		paid := make(chan Outcome, 1)
		go func() { paid <- s.pay(b.v2(t)) }()
		one.Await(verifyCall, 1)
		go func() { all <- struct{}{} }() // takes the slot that verify leaves
		synctest.Wait()
		one.Release()
		require.Equal(t, Settled, (<-paid).Status)
		require.Empty(t, one.Calls(settleCall))
		require.Equal(t, "two.localhost", s.requireState(b, ledger.IntentSettled).Facilitator)
		s.requireHealth("", "")
		require.Len(t, one.Calls(supportedCall), 1, "that says nothing of the facilitator")
	})
}

func TestFacilitatorStatus429IsUp(t *testing.T) {
	for name, reply := range map[string]payoffertest.FacilitatorReply{
		"in text": {Status: 429, Body: "slow down"}, "in JSON": {Status: 429, Body: `{"error":"rate limited"}`}, "as a yes": {Status: 429},
		"as a no": {Status: 429, Reason: "rate_limited"},
	} {
		withShop(t, name, func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
			f.Script(supportedCall, reply)
			s.watching()
			s.requireHealth("")
			require.NotContains(t, s.logs.String(), "left alone")
			require.Equal(t, Settled, s.pay(stranger(1).v2(t)).Status)
		})
	}
}
