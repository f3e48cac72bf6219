package x402

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	verifyCall = payoffertest.CallVerify
	settleCall = payoffertest.CallSettle
)

var someTransaction = "0x" + strings.Repeat("5e", 32)

// None of these answers says that money
// did not move, so none of them may lead the buyer to sign again.
func TestPayKeepsEveryUnknownOutcomeOpen(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		reply        payoffertest.FacilitatorReply
		settled      int
		transaction  string
	}{
		{"status 500", "bad_answer_status_500", payoffertest.FacilitatorReply{Status: 500, Body: "oops"}, 1, ""},
		{"status 500 with a yes", "bad_answer", payoffertest.FacilitatorReply{Status: 500}, 1, ""},
		{"no answer in time", "timeout", payoffertest.FacilitatorReply{Fault: payoffertest.FaultHang}, 0, ""},
		{"success after the timeout", "timeout", payoffertest.FacilitatorReply{Fault: payoffertest.FaultLate}, 1, ""},
		{"closed before reading", "unreachable", payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseUnread}, 0, ""},
		{"closed after reading", "unreachable", payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseRead}, 0, ""},
		{"closed after settling", "unreachable", payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseActed}, 1, ""},
		{"broken JSON", "bad_answer_status_200", payoffertest.FacilitatorReply{Body: `{"success":tr`}, 1, ""},
		{"no verdict", "bad_answer", payoffertest.FacilitatorReply{Body: `{"transaction":"` + someTransaction + `"}`}, 1, ""},
		{"a giant", "bad_answer_status_200", payoffertest.FacilitatorReply{Body: `"` + strings.Repeat("x", maxReply) + `"`}, 1, ""},
		{"success without a transaction", "unspecified", payoffertest.FacilitatorReply{NoTransaction: true}, 1, ""},
		{"success on another network", "unspecified", payoffertest.FacilitatorReply{Network: "eip155:1", Transaction: someTransaction}, 1, someTransaction},
		{"no", "invalid_exact_evm_transaction_failed", payoffertest.FacilitatorReply{Reason: "invalid_exact_evm_transaction_failed"}, 0, ""},
		{"no, with a transaction", "reverted", payoffertest.FacilitatorReply{Reason: "reverted", Transaction: someTransaction}, 0, someTransaction},
		{"no, in text that is no code", "unspecified: <script>", payoffertest.FacilitatorReply{Reason: "<script>"}, 0, ""},
		{"no, with status 400", "insufficient_funds", payoffertest.FacilitatorReply{Reason: "insufficient_funds", Status: 400}, 0, ""},
		{"a redirect", "bad_answer_status_307", payoffertest.FacilitatorReply{Status: 307, Location: "http://one.localhost/settle", Body: " "}, 1, ""},
		{"status 202 with a yes", "status_202", payoffertest.FacilitatorReply{Status: 202}, 1, ""},
		{"status 202 with a paymentId", "status_202", payoffertest.FacilitatorReply{Status: 202, Body: `{"paymentId":"p-1"}`}, 1, ""},
		{"status 401 with a yes", "status_401", payoffertest.FacilitatorReply{Status: 401}, 1, ""},
	} {
		withShop(t, c.name, func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
			f.Script(settleCall, c.reply)
			b := newBuyer(1)

			got := s.pay(b.v2(t))

			require.Equal(t, Open, got.Status, got.Detail)
			require.Equal(t, b.auth.Nonce, got.Intent)
			require.Positive(t, got.RetryAfter)
			require.Nil(t, got.Response)
			stored := s.requireState(b, ledger.IntentSettling)
			require.Equal(t, c.reason, stored.Reason)
			require.Equal(t, c.transaction, stored.Transaction)
			require.False(t, stored.Leased(s.Now()), "it can be taken over at once")
			require.Len(t, f.Calls(settleCall), 1)
			synctest.Wait()
			require.Equal(t, c.settled, f.Settled(b.auth.Nonce))

			require.Equal(t, Open, s.pay(b.v2(t)).Status, "the same payload is not settled by a request")
			require.True(t, s.requireState(b, ledger.IntentSettling).Unacknowledged, "its payer has no outcome")
			require.Len(t, f.Calls(settleCall), 1)
		})
	}
}

func TestPayStoresNothingIfVerifyFails(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		status       Status
		reply        payoffertest.FacilitatorReply
	}{
		{"no", "insufficient_funds", Refused, payoffertest.FacilitatorReply{Reason: "insufficient_funds"}},
		{"no, with status 400", "insufficient_funds", Refused, payoffertest.FacilitatorReply{Reason: "insufficient_funds", Status: 400}},
		{"no, in text that is no code", "unspecified", Refused, payoffertest.FacilitatorReply{Reason: `"><script>`}},
		{"yes, with status 500", "facilitator_unavailable", Unavailable, payoffertest.FacilitatorReply{Status: 500}},
		{"no verdict", "facilitator_unavailable", Unavailable, payoffertest.FacilitatorReply{Body: `{"invalidReason":"insufficient_funds"}`}},
		{"no, with a member of another type", "insufficient_funds", Refused,
			payoffertest.FacilitatorReply{Body: `{"isValid":false,"invalidReason":"insufficient_funds","error":{}}`}},
		{"no answer in time", "facilitator_unavailable", Unavailable, payoffertest.FacilitatorReply{Fault: payoffertest.FaultHang}},
		{"closed", "facilitator_unavailable", Unavailable, payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseRead}},
		{"no, with status 202", "facilitator_unavailable", Unavailable, payoffertest.FacilitatorReply{Status: 202, Reason: "insufficient_funds"}},
		{"no, with status 401", "facilitator_unavailable", Unavailable, payoffertest.FacilitatorReply{Status: 401, Reason: "unauthorized"}},
		{"a redirect", "facilitator_unavailable", Unavailable, payoffertest.FacilitatorReply{Status: 308, Location: "/verify", Body: `{"isValid":true}`}},
	} {
		withShop(t, c.name, func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
			f.Script(verifyCall, c.reply, payoffertest.FacilitatorReply{})
			b := newBuyer(1)
			got := s.pay(b.v2(t))
			require.Equal(t, c.status, got.Status, got.Detail)
			require.Equal(t, c.reason, got.Reason)
			require.Empty(t, f.Calls(settleCall))
			s.requireState(b, "")
			require.Equal(t, Settled, s.pay(b.v2(t)).Status, "and it is final for nobody")
		})
	}
}

// Only a settlement can be pending: a yes to verify is a yes, whatever else it has.
func TestVerifyReplyIsNeverPending(t *testing.T) {
	for _, body := range []string{`{"isValid":true,"paymentId":"p-1"}`, `{"isValid":true,"invalidReason":"settlement_pending"}`} {
		withShop(t, body, func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
			f.Script(verifyCall, payoffertest.FacilitatorReply{Body: body})
			require.Equal(t, Settled, s.pay(newBuyer(1).v2(t)).Status)
		})
	}
}

// goneAfterVerify makes a facilitator verify one payment and be gone before it
// is asked to settle.
func goneAfterVerify(f *payoffertest.Facilitator) {
	f.Script(verifyCall, hangs)
	f.Transport().DisableKeepAlives = true
	go func() {
		f.Await(verifyCall, 1)
		f.Refuse()
		f.Release()
	}()
}

func TestSettleFallsBackOnlyIfUnsent(t *testing.T) {
	pair := func(t *testing.T) (one, two *payoffertest.Facilitator, s *shop) {
		one, two = payoffertest.NewPipedFacilitator(t, "one"), payoffertest.NewPipedFacilitator(t, "two")
		return one, two, newShop(t, setup{facilitators: []*payoffertest.Facilitator{one, two}})
	}
	bubble(t, "when no connection is made", func(t *testing.T) {
		one, two, s := pair(t)
		goneAfterVerify(one)
		b := newBuyer(1)
		require.Equal(t, Settled, s.pay(b.v2(t)).Status)
		require.Empty(t, one.Calls(settleCall))
		require.Equal(t, 1, two.Settled(b.auth.Nonce))
	})
	for name, reply := range map[string]payoffertest.FacilitatorReply{
		"not after status 401":       {Status: 401, Idle: true},
		"not after status 403":       {Status: 403, Body: "forbidden"},
		"not after status 404":       {Status: 404, Body: "no such path"},
		"not after status 429":       {Status: 429, Body: "slow down"},
		"not after status 503":       {Status: 503, Body: "busy"},
		"not after a closed request": {Fault: payoffertest.FaultCloseUnread},
		"not after a timeout":        {Fault: payoffertest.FaultHang},
		"not after a no":             {Reason: "insufficient_funds"},
	} {
		bubble(t, name, func(t *testing.T) {
			one, two, s := pair(t)
			one.Script(settleCall, reply)
			b := newBuyer(1)
			require.Equal(t, Open, s.pay(b.v2(t)).Status)
			require.Empty(t, two.Calls(settleCall))
			require.Equal(t, "one.localhost", s.requireState(b, ledger.IntentSettling).Facilitator)
		})
	}
	bubble(t, "to nobody when none can be reached", func(t *testing.T) {
		one, two, s := pair(t)
		goneAfterVerify(one)
		two.Refuse()
		b := newBuyer(1).named("order_0123456789")
		got := s.pay(b.v2(t))
		require.Equal(t, Unavailable, got.Status)
		s.requireState(b, "")
		again := newShop(t, setup{facilitators: []*payoffertest.Facilitator{payoffertest.NewPipedFacilitator(t, "one")}, ledger: s.book})
		require.Equal(t, Settled, again.pay(b.v2(t)).Status, "the same payload can be sent again")
	})
	bubble(t, "verification moves on after anything", func(t *testing.T) {
		one, two, s := pair(t)
		one.Script(verifyCall, payoffertest.FacilitatorReply{Status: 500, Body: "oops"})
		require.Equal(t, Settled, s.pay(newBuyer(1).v2(t)).Status)
		require.Empty(t, one.Calls(settleCall))
		require.Len(t, two.Calls(settleCall), 1)
	})
}

func TestSettleRepeatsPendingOnce(t *testing.T) {
	pending := payoffertest.FacilitatorReply{Reason: "settlement_pending", Transaction: someTransaction}
	settledAs := `"transaction":"` + someTransaction + `","network":"eip155:84532"}`
	for _, c := range []struct {
		name   string
		second payoffertest.FacilitatorReply
		status Status
	}{
		{"then success", payoffertest.FacilitatorReply{Transaction: someTransaction}, Settled},
		{"then pending again", pending, Open},
		{"then no answer", payoffertest.FacilitatorReply{Status: 502, Body: "bad gateway"}, Open},
		{"then a no that names no transaction", payoffertest.FacilitatorReply{Reason: "invalid_exact_evm_nonce_already_used"}, Open},
		{"then a yes with a paymentId", payoffertest.FacilitatorReply{Body: `{"success":true,"paymentId":"p-1",` + settledAs}, Open},
		{"then a yes that is pending", payoffertest.FacilitatorReply{Body: `{"success":true,"errorReason":"settlement_pending",` + settledAs}, Open},
	} {
		withShop(t, c.name, func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
			f.Script(settleCall, pending, c.second)
			b := newBuyer(1)
			require.Equal(t, c.status, s.pay(b.v2(t)).Status)
			calls := f.Calls(settleCall)
			require.Len(t, calls, 2)
			require.Equal(t, calls[0].Body, calls[1].Body)
			stored, _ := s.stored(b)
			require.Equal(t, someTransaction, stored.Transaction, "the transaction to look for is kept")
		})
	}
}

func TestSettleWithChain(t *testing.T) {
	hash := func(b *buyer) string { return "0xfac" + b.auth.Nonce[5:] }
	for _, c := range []struct {
		name     string
		reply    payoffertest.FacilitatorReply
		chain    func(*payoffertest.Chain, *buyer)
		status   Status
		evidence string
	}{
		{"which shows the transfer", payoffertest.FacilitatorReply{},
			func(chain *payoffertest.Chain, b *buyer) { chain.Transfer(b.key(), hash(b), 42_000_000, false) }, Settled, "seen"},
		{"which shows the transfer after a while", payoffertest.FacilitatorReply{},
			func(chain *payoffertest.Chain, b *buyer) {
				go func() { time.Sleep(3 * time.Second); chain.Transfer(b.key(), hash(b), 42_000_000, false) }()
			}, Settled, "seen"},
		{"which cannot be read", payoffertest.FacilitatorReply{},
			func(chain *payoffertest.Chain, _ *buyer) { chain.Down(true) }, Settled, "claimed"},
		{"which does not answer", payoffertest.FacilitatorReply{},
			func(chain *payoffertest.Chain, _ *buyer) { chain.Hang() }, Settled, "claimed"},
		{"which does not know the transaction", payoffertest.FacilitatorReply{},
			func(*payoffertest.Chain, *buyer) {}, Open, ""},
		{"where the transaction is another payment's", payoffertest.FacilitatorReply{Transaction: someTransaction},
			func(chain *payoffertest.Chain, _ *buyer) {
				chain.Transfer(newBuyer(99).key(), someTransaction, 42_000_000, false)
			}, Open, ""},
		{"where the nonce paid less", payoffertest.FacilitatorReply{},
			func(chain *payoffertest.Chain, b *buyer) { chain.Transfer(b.key(), hash(b), 1, false) }, Open, ""},
		{"in another letter case", payoffertest.FacilitatorReply{Transaction: "0x" + strings.ToUpper(someTransaction[2:])},
			func(chain *payoffertest.Chain, b *buyer) { chain.Transfer(b.key(), someTransaction, 42_000_000, false) }, Settled, "seen"},
		{"in the other dialect's name", payoffertest.FacilitatorReply{Network: "base-sepolia"},
			func(chain *payoffertest.Chain, b *buyer) { chain.Transfer(b.key(), hash(b), 42_000_000, false) }, Settled, "seen"},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s, f, chain, b := onChain(t)
			f.Script(settleCall, c.reply)
			f.OnBroadcast(func(payoffertest.Settlement) (string, error) { c.chain(chain, b); return hash(b), nil })
			got := s.pay(b.v2(t))
			require.Equal(t, c.status, got.Status, got.Detail)
			require.Equal(t, c.evidence, got.Evidence)
			receipts := s.receipts()
			require.Equal(t, c.evidence == "seen", len(receipts) == 1, "only the chain makes a receipt")
			if c.evidence == "seen" {
				require.Equal(t, "x402", receipts[0].Via)
				require.Equal(t, got, s.pay(b.v2(t)))
			}
			require.Equal(t, 1, f.Settled(b.auth.Nonce))
		})
	}
}

// The ledger is held from the first look at a payment until its settlement is recorded, also if the client leaves.
func TestPayHoldsLedgerUntilRecorded(t *testing.T) {
	for _, call := range []string{verifyCall, settleCall} {
		withShop(t, call, func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
			f.Script(call, payoffertest.FacilitatorReply{Fault: payoffertest.FaultHang})
			var held atomic.Int64
			s.Hold = func() (func(), bool) {
				held.Add(1)
				return func() { held.Add(-1) }, true
			}
			b := newBuyer(1)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			outcome := make(chan Outcome, 1)
			go func() { outcome <- s.Pay(ctx, Attempt{Payload: b.v2(t)}) }()
			f.Await(call, 1)
			if call == settleCall {
				leave()
				require.Equal(t, Open, (<-outcome).Status)
				soon, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.ErrorIs(t, s.Wait(soon), context.DeadlineExceeded, "a stop waits for the settlement")
			}
			require.Positive(t, held.Load())
			f.Release()
			require.NoError(t, s.Wait(t.Context()))
			synctest.Wait()
			s.requireState(b, ledger.IntentSettled)
			require.Zero(t, held.Load())
		})
	}
}

func TestPayRefusesAfterLedgerClose(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
		s.Hold = func() (func(), bool) { return nil, false }
		got := s.pay(newBuyer(1).v2(t))
		require.Equal(t, Open, got.Status)
		require.Equal(t, "ledger_unavailable", got.Reason)
		require.Empty(t, f.Calls(verifyCall))
	})
}

// The chain fails in the moment of the charge. It is read again at once and not in the next cycle, which is an hour away.
func TestClaimIsProvenBeforeNextCycle(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s, f, chain, _ := onChain(t)
		s.ResolveEvery = time.Hour
		go s.Service.Run(t.Context())
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		b := newBuyer(1)
		settlesOn(f, chain, b)
		chain.Fail("prove", true)
		got := s.pay(b.v2(t))
		require.Equal(t, Settled, got.Status)
		require.Equal(t, "claimed", got.Evidence)
		chain.Fail("prove", false)
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, ledger.EvidenceChain, s.requireState(b, ledger.IntentSettled).Evidence)
	})
}
