package x402

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// A buyer who has read the 200 may be quicker with the next purchase than the note that it was written.
func TestTheNextPurchaseWaitsForTheNoteThatItsBuyerWasTold(t *testing.T) {
	for name, whole := range map[string]bool{"the 200 was written": true, "the 200 was lost": false} {
		bubble(t, name, func(t *testing.T) {
			f, chain, a, b := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1), newBuyer(2)
			settlesOn(f, chain, a)
			s := newShop(t, setup{facilitators: one(f), chain: chain})
			ctx := TrackResponse(t.Context())
			requireChargedBy(t, a, s.Pay(ctx, Attempt{Payload: a.v2(t), Client: "192.0.2.1"}))

			settlesOn(f, chain, b)
			next := make(chan Outcome)
			go func() { next <- s.pay(b.v2(t)) }()
			synctest.Wait()
			require.Len(t, f.Calls(settleCall), 1)
			EndResponse(ctx, whole)
			if whole {
				requireChargedBy(t, b, <-next)
			} else {
				requireChargedBy(t, a, <-next)
			}
		})
	}
}

// Many clients leave as soon as they have read an answer.
func TestWhoLeavesOnceTheAnswerIsMadeWasTold(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, chain, a, b := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1), newBuyer(2)
		settlesOn(f, chain, a)
		s := newShop(t, setup{facilitators: one(f), chain: chain})
		ctx, leave := context.WithCancel(TrackResponse(t.Context()))
		requireChargedBy(t, a, s.Pay(ctx, Attempt{Payload: a.v2(t), Client: "192.0.2.1"}))
		leave()
		EndResponse(ctx, true)
		settlesOn(f, chain, b)
		requireChargedBy(t, b, s.pay(b.v2(t)))
	})
}

func TestWhoLeftBeforeTheAnswerWasMadeWasNotTold(t *testing.T) {
	ctx, leave := context.WithCancel(TrackResponse(t.Context()))
	leave()
	var told []bool
	onResponse(ctx, func(whole bool) { told = append(told, whole) })
	EndResponse(ctx, true)
	require.Equal(t, []bool{false}, told)
}

// Another instance may be writing the 200 of a charge, or have lost its client.
func TestTheNextPurchaseWaitsForTheNoteOfAnotherInstance(t *testing.T) {
	for name, whole := range map[string]bool{"the 200 was written": true, "the 200 was lost": false} {
		bubble(t, name, func(t *testing.T) {
			f, chain, a, b := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1), newBuyer(2)
			settlesOn(f, chain, a)
			s := newShop(t, setup{facilitators: one(f), chain: chain})
			other := newShop(t, setup{facilitators: one(f), chain: chain, ledger: s.book, owner: "another instance"})
			ctx := TrackResponse(t.Context())
			requireChargedBy(t, a, other.Pay(ctx, Attempt{Payload: a.v2(t), Client: "192.0.2.1"}))
			settlesOn(f, chain, b)
			next := make(chan Outcome)
			go func() { next <- s.pay(b.v2(t)) }()
			synctest.Wait()
			EndResponse(ctx, whole)
			if whole {
				requireChargedBy(t, b, <-next)
			} else {
				requireChargedBy(t, a, <-next)
			}
		})
	}
}

// slowBook is a ledger after whose next Look something else happens first.
type slowBook struct {
	book
	meanwhile func()
	telling   chan struct{} // nil, or closed when charges are noted
}

func (b *slowBook) LookUp(ctx context.Context, i ledger.Intent) (ledger.Lookup, error) {
	look, err := b.book.LookUp(ctx, i)
	if meanwhile := b.meanwhile; meanwhile != nil {
		b.meanwhile = nil
		meanwhile()
	}
	return look, err
}

func (b *slowBook) AcknowledgeIntent(ctx context.Context, key ledger.IntentKey, atOnce bool) error {
	if b.telling != nil {
		<-b.telling
	}
	return b.book.AcknowledgeIntent(ctx, key, atOnce)
}

func TestTheNextPurchaseCountsWhenItsBuyerWasNotedAsToldSinceTheLook(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, chain, a, b := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1), newBuyer(2)
		settlesOn(f, chain, a)
		l := &slowBook{book: openLedger(t)}
		s := newShop(t, setup{facilitators: one(f), chain: chain, ledger: l})
		ctx := TrackResponse(t.Context())
		requireChargedBy(t, a, s.Pay(ctx, Attempt{Payload: a.v2(t), Client: "192.0.2.1"}))
		settlesOn(f, chain, b)
		l.meanwhile = func() {
			EndResponse(ctx, true)
			synctest.Wait()
		}
		requireChargedBy(t, b, s.pay(b.v2(t)))
		require.Len(t, f.Calls(settleCall), 2)
	})
}

func TestWhatCameWhileAnotherWasOpenIsNotChargedBesidesOnceThatIsTold(t *testing.T) {
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
func TestNoConnectionWaitsForTheNoteThatItsBuyerWasTold(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, chain, a := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1)
		settlesOn(f, chain, a)
		l := &slowBook{book: openLedger(t), telling: make(chan struct{})}
		s := newShop(t, setup{facilitators: one(f), chain: chain, ledger: l})
		requireChargedBy(t, a, s.pay(a.v2(t)))
		stopped := make(chan error, 1)
		go func() { stopped <- s.Wait(t.Context()) }()
		synctest.Wait()
		require.Empty(t, stopped)
		close(l.telling)
		require.NoError(t, <-stopped)
		stored, _ := s.stored(a)
		require.NotZero(t, stored.AcknowledgedAt)
	})
}
