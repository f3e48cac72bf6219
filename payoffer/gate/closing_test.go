package gate

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
)

// Signing out ends the header of the payment, too: here at once, on other instances within ten seconds.
func TestSignOutEndsPaymentHeader(t *testing.T) {
	w := newWorld(t)
	id, second := w.settles(strings.Repeat("5", 64)), w.instance("pay.example.org")
	h := Holder{id.Account, ledger.AuthorizationName(id.Payer, id.Nonce)}
	for _, k := range []*Keeper{w.Keeper, second} {
		must(k.ByPayment(t.Context(), id, access))(t)
	}
	require.NoError(t, w.End(t.Context(), h))
	require.ErrorIs(t, errorOf(w.ByPayment(t.Context(), id, access)), ErrClosed)
	w.pass(stateLifetime)
	require.ErrorIs(t, errorOf(second.ByPayment(t.Context(), id, access)), ErrClosed)
	cookie := w.enters(w.Keeper, h)
	w.requireOpen(w.Keeper, cookie)
	require.ErrorIs(t, errorOf(w.ByPayment(t.Context(), id, access)), ErrClosed, "a new browser does not bring it back")
}

// A refund closes within ten seconds. Until then the ledger is not asked, also for many requests at once.
func TestRefundClosesWithinTenSeconds(t *testing.T) {
	w := newWorld(t)
	h := w.pays("pi_1", nil)
	cookie := w.enters(w.Keeper, h)
	w.requireOpen(w.Keeper, cookie)
	reads := w.ledger.reads.Load()
	w.pays("pi_1", returns(ledger.ReturnRefund, 42_00))
	for range 9 {
		w.pass(time.Second)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { w.requireOpen(w.Keeper, cookie) })
		}
		all.Wait()
	}
	require.Equal(t, reads, w.ledger.reads.Load())
	w.pass(time.Second)
	w.requireClosed(w.Keeper, cookie)
}

// refund reports a refund of a dollar in a state at the card processor, in a currency if it is not the payment's.
func refund(state, currency string) func(*ledger.Observation) {
	return func(s *ledger.Observation) {
		rank := map[string]int{"pending": 0, "succeeded": 1, "failed": 2}[state]
		s.Returns = []ledger.Return{{ID: "re_1", Kind: ledger.ReturnRefund, Amount: 100, Currency: currency, Gone: state == "succeeded", At: start.Unix(), Rank: rank}}
	}
}

// A refund that is not final yet closes like any other; one that failed opens again.
func TestPendingRefundClosesUntilItFails(t *testing.T) {
	w := newWorld(t)
	cookie := w.enters(w.Keeper, w.pays("pi_1", nil))
	other := w.enters(w.Keeper, w.pays("pi_2", nil))
	for _, step := range []struct {
		state string
		opens bool
	}{{"pending", false}, {"failed", true}, {"pending", true}} {
		w.pays("pi_1", refund(step.state, ""))
		w.pass(stateLifetime)
		_, err := w.ByCookie(t.Context(), cookie, access)
		require.Equal(t, step.opens, err == nil, "%s: %v", step.state, err)
		w.requireOpen(w.Keeper, other)
	}
	w.pays("pi_2", refund("succeeded", ""))
	w.pass(stateLifetime)
	w.requireClosed(w.Keeper, other)
}

func TestRestoredRefundOpensAgain(t *testing.T) {
	w := newWorld(t)
	h := w.pays("pi_1", nil)
	entry := manual.Entry{Reason: "a typo"}
	paid, _, err := w.ledger.Receipt(t.Context(), w.Offer.ID, h.Account, "pi_1")
	require.NoError(t, err)
	entered := entry.Refund(paid, 100, nil, start)
	refunded := must(w.ledger.Record(t.Context(), nil, entered))(t)
	w.requireRefused(w.Keeper, w.Code(h), "a refund")
	must(w.ledger.Record(t.Context(), nil, entry.UndoRefunds(refunded[0], entered.Returns)))(t)
	w.requireOpen(w.Keeper, w.enters(w.Keeper, h))
}

// A refund can become final between the two reads of the ledger.
func TestRefundDuringReadCloses(t *testing.T) {
	w := newWorld(t)
	h := w.pays("pi_1", refund("pending", ""))
	p, found, err := w.ledger.Payment(t.Context(), w.Offer.ID, h.Account, h.Name)
	require.NoError(t, err)
	require.True(t, found && p.Refunded == 0)
	w.pays("pi_1", refund("succeeded", ""))
	w.Ledger = stale{w.ledger, p}
	w.requireRefused(w.Keeper, w.Code(h), "the refund is final")
}

// stale is a ledger that reads a payment as it was before.
type stale struct {
	*counting
	before ledger.Payment
}

func (s stale) Payment(context.Context, string, string, string) (ledger.Payment, bool, error) {
	return s.before, true, nil
}

// While the refunds of a payment cannot be read, nobody new is let in.
func TestUnreadableRefundsRefuseNewBrowsers(t *testing.T) {
	w := newWorld(t)
	h := w.pays("pi_1", nil)
	cookie, second := w.enters(w.Keeper, h), w.instance("pay.example.org")
	w.requireOpen(w.Keeper, cookie)
	w.ledger.fails.Store(new("Returns"))
	w.requireOpen(w.Keeper, cookie)
	require.ErrorIs(t, errorOf(second.ByCookie(t.Context(), cookie, access)), ErrUnreadable)
	_, _, err := w.Enter(t.Context(), w.Code(h))
	require.ErrorIs(t, err, ErrUnreadable)
}
