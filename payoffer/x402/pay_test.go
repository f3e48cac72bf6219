package x402

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func one(f *payoffertest.Facilitator) []*payoffertest.Facilitator {
	return []*payoffertest.Facilitator{f}
}

func TestPayBothProtocolVersions(t *testing.T) {
	for _, c := range []struct {
		name, network string
		version       int
		payload       func(*buyer, testing.TB) []byte
	}{
		{"version 2", "eip155:84532", 2, (*buyer).v2},
		{"version 1", "base-sepolia", 1, (*buyer).v1},
	} {
		withShop(t, c.name, func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
			b := newBuyer(1)

			got := s.pay(c.payload(b, t))

			require.Equal(t, Settled, got.Status, got.Detail)
			require.Equal(t, c.version, got.Version)
			require.Equal(t, "claimed", got.Evidence)
			require.True(t, got.Response.Success)
			require.Equal(t, c.network, got.Response.Network)
			require.Equal(t, "42000000", got.Response.Amount)
			require.Equal(t, strings.ToLower(b.auth.From), got.Response.Payer)
			require.Equal(t, 1, f.Settled(b.auth.Nonce))
			stored := s.requireState(b, ledger.IntentSettled)
			require.Equal(t, ledger.EvidenceFacilitator, stored.Evidence)
			require.Equal(t, stored.Transaction, got.Response.Transaction)
			require.JSONEq(t, s.rebuilt(c.payload(b, t)), string(stored.Payload))
			require.Equal(t, sentIn(f, callVerify), sentIn(f, callSettle), "what was verified is settled")
		})
	}
}

func TestPayRefusesChangedPayload(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *buyer){
		"another time":                     func(_ *testing.T, b *buyer) { b.auth.ValidAfter = "1" },
		"another signature":                func(t *testing.T, b *buyer) { b.signature = mirrored(t, b) },
		"a signature that was not checked": func(_ *testing.T, b *buyer) { b.signature = "0x" + strings.Repeat("ab", 99) },
	} {
		withShop(t, name, func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
			require.Equal(t, Settled, s.pay(newBuyer(1).v2(t)).Status)
			forged := newBuyer(1)
			change(t, forged)
			got := s.pay(forged.v2(t))
			require.Equal(t, Conflict, got.Status)
			require.Equal(t, "authorization_in_use", got.Reason)
			require.Nil(t, got.Response, "a stranger does not get the receipt")
		})
	}
}

func TestPayRefusesPaymentOfOtherOffer(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		mine := newShop(t, setup{facilitators: one(f)})
		require.Equal(t, Settled, mine.pay(newBuyer(1).v2(t)).Status)
		theirs := newShop(t, setup{facilitators: one(f), ledger: mine.book, offerID: "other-offer", payTo: otherPayTo})
		got := theirs.pay(newBuyer(1).v2(t))
		require.Equal(t, Conflict, got.Status)
		require.Nil(t, got.Response)
	})
}

func TestPayConcurrentCopiesWaitForFirst(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		f.Script(payoffertest.CallSettle, payoffertest.FacilitatorReply{Fault: payoffertest.FaultHangActed})
		s := newShop(t, setup{facilitators: one(f), timeout: time.Minute})
		payload := newBuyer(1).v2(t)
		winner := make(chan Outcome, 1)
		go func() { winner <- s.pay(payload) }()
		f.Await(payoffertest.CallSettle, 1)

		start := time.Now()
		losers := make([]Outcome, 3)
		var work sync.WaitGroup
		for n := range losers {
			work.Go(func() { losers[n] = s.pay(payload) })
		}
		work.Wait()
		require.Equal(t, waitWinner, time.Since(start), "they wait beside each other")
		for _, loser := range losers {
			require.Equal(t, Open, loser.Status)
			require.Positive(t, loser.RetryAfter)
		}

		go func() { time.Sleep(time.Second); f.Release() }()
		require.Equal(t, Settled, s.pay(payload).Status)
		require.Equal(t, Settled, (<-winner).Status)
	})
}

// late is a ledger whose first look for an intent comes before another
// instance has committed it.
type late struct {
	book
	looked bool
}

func (l *late) LookUp(ctx context.Context, i ledger.Intent) (ledger.Lookup, error) {
	if !l.looked {
		l.looked = true
		return ledger.Lookup{}, nil
	}
	return l.book.LookUp(ctx, i)
}

func TestPaymentDoesNotConflictWithItself(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
		a := newBuyer(1)
		paid := s.pay(a.v2(t))
		require.Equal(t, Settled, paid.Status)
		for _, open := range []bool{false, true} {
			if open {
				must(s.book.Apply(t.Context(), ledger.IntentKey{Network: "eip155:84532", Asset: s.rails[0].Network.USDC, From: a.auth.From, Nonce: a.auth.Nonce}, ledger.IntentChange{Event: accounting.EventDisproved, Reason: "reorg"}))(t)
			}
			other := newShop(t, setup{facilitators: one(f), ledger: &late{book: s.book}})
			got := other.pay(a.v2(t))
			require.NotEqual(t, Conflict, got.Status, got.Reason)
			require.Len(t, f.Calls(payoffertest.CallSettle), 1)
		}
	})
}

func TestPaymentIdentifiers(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		const id = "order_0123456789"
		f := payoffertest.NewPipedFacilitator(t, "one")
		s := newShop(t, setup{facilitators: one(f)})
		first := newBuyer(2).named(id)
		for range 2 {
			require.Equal(t, Settled, s.pay(first.v2(t)).Status)
		}
		got := s.pay(newBuyer(3).named(id).v2(t))
		require.Equal(t, Conflict, got.Status)
		require.Equal(t, "payment_identifier_in_use", got.Reason)
		s.requireState(newBuyer(3), "")
		require.Len(t, f.Calls(payoffertest.CallSettle), 1)
	})
}

func TestPayRateLimit(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		f.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Reason: "insufficient_funds"})
		s := newShop(t, setup{facilitators: one(f), limiter: limited(2, time.Minute)})
		for n := range 2 {
			got := s.pay(newBuyer(n).v2(t))
			require.Equal(t, Refused, got.Status)
			require.Equal(t, "insufficient_funds", got.Reason)
		}
		got := s.pay(newBuyer(2).v2(t))
		require.Equal(t, Limited, got.Status)
		require.Equal(t, 30*time.Second, got.RetryAfter)
		require.Len(t, f.Calls(payoffertest.CallVerify), 2)

		other := s.Pay(t.Context(), Attempt{Payload: newBuyer(3).v2(t), Client: "192.0.2.2"})
		require.Equal(t, Refused, other.Status, "another client has attempts of its own")
		time.Sleep(got.RetryAfter)
		require.Equal(t, Refused, s.pay(newBuyer(4).v2(t)).Status)
	})
}

func TestPayExpiryDuringVerify(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
		f.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Fault: payoffertest.FaultHang})
		b := newBuyer(1)
		b.auth.ValidBefore = fmt.Sprint(time.Now().Unix() + 9)
		go func() { time.Sleep(verifyTimeout - time.Millisecond); f.Release() }()
		got := s.pay(b.v2(t))
		require.Equal(t, Unavailable, got.Status)
		require.Empty(t, f.Calls(payoffertest.CallSettle))
		s.requireState(b, "")
	})
}

func TestPayCanceledBeforeIntent(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		one, two := payoffertest.NewPipedFacilitator(t, "one"), payoffertest.NewPipedFacilitator(t, "two")
		one.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Fault: payoffertest.FaultHang})
		s := newShop(t, setup{facilitators: []*payoffertest.Facilitator{one, two}})
		b := newBuyer(1)
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			one.Await(payoffertest.CallVerify, 1)
			leave()
		}()
		require.Equal(t, Unavailable, s.Pay(ctx, Attempt{Payload: b.v2(t)}).Status)
		synctest.Wait()
		require.Empty(t, two.Calls(payoffertest.CallVerify))
		require.Empty(t, s.logs.String(), "that says nothing of the facilitator")
		s.requireState(b, "")
	})
}
