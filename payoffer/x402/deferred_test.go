package x402

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func (s *shop) verify(b *buyer) (*Verified, Outcome) {
	s.t.Helper()
	return s.Verify(s.t.Context(), Attempt{Payload: b.v2(s.t), Deferred: true})
}

func TestVerifyStoresNothingBeforeCharge(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
		b := newBuyer(1)
		verified, _ := s.verify(b)
		require.NotNil(t, verified)
		require.Equal(t, "usdc", verified.Rail)
		require.Equal(t, b.key().From, verified.Payer)
		s.requireState(b, "")
		require.Empty(t, f.Calls(settleCall))

		verified.Release()
		verified.Release()
		require.Zero(t, s.runs.count.Load())
		s.requireState(b, "")

		verified, _ = s.verify(b)
		time.Sleep(time.Minute) // the application works
		got := verified.Charge(t.Context())
		require.Equal(t, Settled, got.Status)
		require.True(t, got.ByPayer)
		stored := s.requireState(b, ledger.IntentSettled)
		require.Equal(t, time.Now().Unix(), stored.CreatedAt, "the charge is dated")
		require.NotEmpty(t, stored.Secret)
		require.Len(t, f.Calls(settleCall), 1)
		require.Zero(t, s.runs.count.Load())
	})
}

func TestVerifyRefusalReleasesPayer(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, _ *payoffertest.Facilitator) {
		refuse := func() (reason, detail string) { return "refused", "Another one." }
		verified, answer := s.Verify(t.Context(), Attempt{Payload: newBuyer(1).v2(t), Deferred: true, Refuse: refuse})
		require.Nil(t, verified)
		require.Equal(t, Refused, answer.Status)
		require.Zero(t, s.runs.count.Load())
		verified, _ = s.verify(newBuyer(2))
		require.NotNil(t, verified, "the payer is free again")
		verified.Release()
	})
}

func TestDeferredQuoteHasNoPaymentFlow(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s, f := offChain(t)
		accepts := func(deferred bool) Requirements {
			quote := s.QuoteFor(offer.Resource{URL: "https://shop.example/report"}, deferred, "no pass")
			var required PaymentRequired
			require.NoError(t, json.Unmarshal(must(base64.StdEncoding.DecodeString(quote.Header()))(t), &required))
			return required.Accepts[0]
		}
		require.Equal(t, flowUpfront, accepts(false).Extra.PaymentFlow)
		deferred := accepts(true)
		require.Empty(t, deferred.Extra.PaymentFlow)
		deferred.Extra.PaymentFlow = flowUpfront
		require.Equal(t, accepts(false), deferred)

		verified, _ := s.verify(newBuyer(1))
		require.Equal(t, Settled, verified.Charge(t.Context()).Status)
		for _, call := range []string{payoffertest.CallVerify, settleCall} {
			text := f.Calls(call)[len(f.Calls(call))-1].Body
			require.NotContains(t, string(text), "paymentFlow", "the facilitator gets the terms of the quote")
		}
	})
}

func TestChargeRefusesSlowApplication(t *testing.T) {
	for seconds, status := range map[time.Duration]Status{290: Settled, 295: Unavailable, 301: Unavailable} {
		withShop(t, fmt.Sprint(int(seconds), " s"), func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
			b := newBuyer(1)
			verified, _ := s.verify(b)
			time.Sleep(seconds * time.Second)
			got := verified.Charge(t.Context())
			require.Equal(t, status, got.Status)
			if status == Settled {
				return
			}
			require.Equal(t, "application_slow", got.Reason)
			require.Empty(t, f.Calls(settleCall))
			s.requireState(b, "")
			require.Zero(t, s.runs.count.Load())
		})
	}
}

// A client that keeps the application waiting holds no run and no payer longer than its payment can be charged.
func TestDeferredRunEndsWithAuthorization(t *testing.T) {
	for valid, ends := range map[time.Duration]time.Duration{
		20 * time.Second: 14 * time.Second, 300 * time.Second: 294 * time.Second, 800 * time.Second: 300 * time.Second,
	} {
		withShop(t, fmt.Sprint("valid for ", valid), func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
			b := newBuyer(1)
			b.auth.ValidBefore = fmt.Sprint(time.Now().Add(valid).Unix())
			held, _ := s.verify(b)
			time.Sleep(ends - time.Second)
			synctest.Wait()
			require.EqualValues(t, 1, s.runs.count.Load())
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Zero(t, s.runs.count.Load())
			next, _ := s.verify(newBuyer(2))
			require.NotNil(t, next, "the payer is free")
			next.Release()
			got := held.Charge(t.Context())
			require.Equal(t, Unavailable, got.Status)
			require.Equal(t, "application_slow", got.Reason)
			require.Empty(t, f.Calls(settleCall))
			held.Release()
			require.Zero(t, s.runs.count.Load())
		})
	}
}

// A payment that waited for another one of its payer is answered by what that one became.
func TestVerifyWaiterGetsChargedOutcome(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s, f, chain, a := onChain(t)
		settlesOn(f, chain, a)
		verified, _ := s.verify(a)
		require.NotNil(t, verified)
		waiting := make(chan Outcome, 1)
		go func() {
			second, answer := s.verify(newBuyer(2))
			if second != nil {
				second.Release()
			}
			waiting <- answer
		}()
		synctest.Wait()
		require.Empty(t, waiting, "it waits for the first one")
		require.Equal(t, Settled, verified.Charge(t.Context()).Status)
		requireChargedBy(t, a, <-waiting)
		require.Len(t, f.Calls(settleCall), 1)
	})
}

func TestVerifyCanceledWaiterReturns(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, _ *payoffertest.Facilitator) {
		first, _ := s.verify(newBuyer(1))
		defer first.Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		verified, answer := s.Verify(ctx, Attempt{Payload: newBuyer(2).v2(t), Deferred: true})
		require.Nil(t, verified)
		require.Equal(t, "request_canceled", answer.Reason)
	})
}

func TestVerifyUnprovenPaymentBlocksNoPayer(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, _ *payoffertest.Facilitator) {
		forged := newBuyer(1)
		forged.signature = "0x" + fmt.Sprintf("%0130x", 7)
		first, _ := s.verify(forged) // as of a contract's wallet, which this shop cannot check
		require.NotNil(t, first)
		defer first.Release()
		second, _ := s.verify(newBuyer(2))
		require.NotNil(t, second)
		second.Release()

		again := newBuyer(3)
		again.signature = forged.signature
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		third, answer := s.Verify(ctx, Attempt{Payload: again.v2(t), Deferred: true})
		require.Nil(t, third, "a wallet without proof has one run, too")
		require.Equal(t, "request_canceled", answer.Reason)
	})
}

func TestDeferredRunLimit(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, _ *payoffertest.Facilitator) {
		of := func(n int) *buyer {
			b := newBuyer(n)
			b.signer = crypto.ToECDSAUnsafe(crypto.Keccak256(fmt.Append(nil, "payer ", n)))
			b.auth.From = crypto.PubkeyToAddress(b.signer.PublicKey).Hex()
			return b
		}
		var held []*Verified
		for n := range maxRuns {
			verified, answer := s.verify(of(n))
			require.NotNil(t, verified, answer.Detail)
			held = append(held, verified)
		}
		verified, answer := s.verify(of(maxRuns))
		require.Nil(t, verified)
		require.Equal(t, Unavailable, answer.Status)
		require.Equal(t, "too_many_payments", answer.Reason)
		require.NotZero(t, answer.RetryAfter)
		require.Equal(t, Settled, s.Pay(t.Context(), Attempt{Payload: of(maxRuns + 1).v2(t)}).Status, "an upfront one runs nothing")

		held[0].Release()
		verified, _ = s.verify(of(maxRuns))
		require.NotNil(t, verified)
		verified.Release()
		for _, v := range held {
			v.Release()
		}
		require.Zero(t, s.runs.count.Load())
	})
}
