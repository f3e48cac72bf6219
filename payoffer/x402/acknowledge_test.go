package x402

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// A payer who has read the 200 may be faster with the next purchase than the record of that 200, by this instance or another.
func TestNextPurchaseWaitsForAcknowledgement(t *testing.T) {
	for name, c := range map[string]struct{ complete, otherInstance bool }{
		"the 200 was written": {true, false}, "the 200 was lost": {false, false},
		"another instance wrote the 200": {true, true}, "another instance lost the 200": {false, true},
	} {
		bubble(t, name, func(t *testing.T) {
			s, f, chain, a, b := purchases(t)
			first := s
			if c.otherInstance {
				first = newShop(t, setup{facilitators: one(f), chain: chain, ledger: s.book, owner: "another instance"})
			}
			response := new(Response)
			requireChargedBy(t, a, first.Pay(t.Context(), Attempt{Payload: a.v2(t), Client: "192.0.2.1", Response: response}))
			settlesOn(f, chain, b)
			next := make(chan Outcome)
			go func() { next <- s.pay(b.v2(t)) }()
			synctest.Wait()
			require.Len(t, f.Calls(settleCall), 1)
			response.End(c.complete)
			if c.complete {
				requireChargedBy(t, b, <-next)
			} else {
				requireChargedBy(t, a, <-next)
			}
		})
	}
}

// Many clients leave as soon as they have read an answer.
func TestAcknowledgeClientLeftAfterResponse(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s, f, chain, a, b := purchases(t)
		ctx, leave := context.WithCancel(t.Context())
		response := new(Response)
		requireChargedBy(t, a, s.Pay(ctx, Attempt{Payload: a.v2(t), Client: "192.0.2.1", Response: response}))
		leave()
		response.End(true)
		settlesOn(f, chain, b)
		requireChargedBy(t, b, s.pay(b.v2(t)))
	})
}

func TestAcknowledgeClientLeftBeforeResponse(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	leave()
	response := new(Response)
	var ends []bool
	response.OnEnd(ctx, func(complete bool) { ends = append(ends, complete) })
	response.End(true)
	require.Equal(t, []bool{false}, ends)
}

// slowBook is a ledger after whose next Look something else happens first.
type slowBook struct {
	book
	meanwhile     func()
	acknowledging chan struct{} // nil, or closed when charges are noted
}

func (s *slowBook) LookUp(ctx context.Context, i ledger.Intent) (ledger.Lookup, error) {
	look, err := s.book.LookUp(ctx, i)
	if meanwhile := s.meanwhile; meanwhile != nil {
		s.meanwhile = nil
		meanwhile()
	}
	return look, err
}

func (s *slowBook) AcknowledgeIntent(ctx context.Context, key ledger.IntentKey, atOnce bool) error {
	if s.acknowledging != nil {
		<-s.acknowledging
	}
	return s.book.AcknowledgeIntent(ctx, key, atOnce)
}

func TestAcknowledgementAfterLookUpCounts(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, chain, a, b := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1), newBuyer(2)
		settlesOn(f, chain, a)
		l := &slowBook{book: openLedger(t)}
		s := newShop(t, setup{facilitators: one(f), chain: chain, ledger: l})
		response := new(Response)
		requireChargedBy(t, a, s.Pay(t.Context(), Attempt{Payload: a.v2(t), Client: "192.0.2.1", Response: response}))
		settlesOn(f, chain, b)
		l.meanwhile = func() {
			response.End(true)
			synctest.Wait()
		}
		requireChargedBy(t, b, s.pay(b.v2(t)))
		require.Len(t, f.Calls(settleCall), 2)
	})
}

func TestPaymentDuringOpenPaymentIsNotCharged(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, chain, a, b := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1), newBuyer(2)
		settlesOn(f, chain, a)
		f.Script(settleCall, payoffertest.FacilitatorReply{Fault: payoffertest.FaultHang}, payoffertest.FacilitatorReply{})
		l := &slowBook{book: openLedger(t)}
		s := newShop(t, setup{facilitators: one(f), chain: chain, ledger: l})
		first := make(chan Outcome, 1)
		go func() { first <- s.pay(a.v2(t)) }()
		f.Await(settleCall, 1)
		l.meanwhile = func() {
			f.Release()
			requireChargedBy(t, a, <-first)
			synctest.Wait()
		}
		requireChargedBy(t, a, s.pay(b.v2(t)))
		require.Len(t, f.Calls(settleCall), 1)
	})
}

// The connection may bring a request of somebody else next, and a stop waits for the note.
func TestConnectionDoesNotWaitForAcknowledgement(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, chain, a := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1)
		settlesOn(f, chain, a)
		l := &slowBook{book: openLedger(t), acknowledging: make(chan struct{})}
		s := newShop(t, setup{facilitators: one(f), chain: chain, ledger: l})
		requireChargedBy(t, a, s.pay(a.v2(t)))
		stopped := make(chan error, 1)
		go func() { stopped <- s.Wait(t.Context()) }()
		synctest.Wait()
		require.Empty(t, stopped)
		close(l.acknowledging)
		require.NoError(t, <-stopped)
		stored, _ := s.stored(a)
		require.NotZero(t, stored.AcknowledgedAt)
	})
}

// A client that requests a gated address again without its cookie signs again. For two minutes the first charge opens it.
func TestGatedResponseProtectsPayerTwoMinutes(t *testing.T) {
	for _, later := range []time.Duration{time.Minute, 2*time.Minute + time.Second} {
		bubble(t, later.String(), func(t *testing.T) {
			s, f, chain, a, b := purchases(t)
			pay := func(signed *buyer) Outcome {
				response := &Response{Gated: true}
				o := s.Pay(t.Context(), Attempt{Payload: signed.v2(t), Client: "192.0.2.1", Response: response})
				response.End(true)
				require.True(t, o.ByPayer)
				synctest.Wait()
				return o
			}
			requireChargedBy(t, a, pay(a))
			time.Sleep(later)
			settlesOn(f, chain, b)
			if later < 2*time.Minute {
				requireChargedBy(t, a, pay(b))
			} else {
				requireChargedBy(t, b, pay(b))
			}
		})
	}
}
