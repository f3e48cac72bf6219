package x402

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

var errDisk = errors.New("disk full")

// failingBook fails at the steps that are switched on.
type failingBook struct {
	book
	read, insert, settle, record, note, withdraw, refuse atomic.Bool
	// committing, unless it is nil, commits an intent or not; nobody is told.
	committing func(ledger.Intent)
}

func fail(on *atomic.Bool, f func() error) error {
	if on.Load() {
		return errDisk
	}
	return f()
}

func (f *failingBook) Intent(ctx context.Context, key ledger.IntentKey) (i ledger.Intent, known bool, err error) {
	err = fail(&f.read, func() error { i, known, err = f.book.Intent(ctx, key); return err })
	return i, known, err
}

func (f *failingBook) LookUp(ctx context.Context, i ledger.Intent) (look ledger.Lookup, err error) {
	err = fail(&f.read, func() error { look, err = f.book.LookUp(ctx, i); return err })
	return look, err
}

func (f *failingBook) InsertIntent(ctx context.Context, i ledger.Intent) error {
	if f.committing != nil {
		f.committing(i)
		return errDisk
	}
	return fail(&f.insert, func() error { return f.book.InsertIntent(ctx, i) })
}

func (f *failingBook) Record(ctx context.Context, cursor *ledger.Cursor, observations ...ledger.Observation) (receipts []ledger.Receipt, err error) {
	err = fail(&f.record, func() error { receipts, err = f.book.Record(ctx, cursor, observations...); return err })
	return receipts, err
}

func (f *failingBook) Apply(ctx context.Context, key ledger.IntentKey, c ledger.IntentChange) (i ledger.Intent, err error) {
	switches := map[accounting.Event]*atomic.Bool{
		accounting.EventClaimed: &f.settle, accounting.EventAnswered: &f.settle, accounting.EventUnknown: &f.note, accounting.EventLeased: &f.note,
		accounting.EventNotSent: &f.withdraw, accounting.EventDead: &f.refuse,
	}
	err = fail(cmp.Or(switches[c.Event], new(atomic.Bool)), func() error { i, err = f.book.Apply(ctx, key, c); return err })
	return i, err
}

func failing(t *testing.T, chain *payoffertest.Chain) (*shop, *failingBook, *payoffertest.Facilitator) {
	f, l := payoffertest.NewPipedFacilitator(t, "one"), &failingBook{book: openLedger(t)}
	return newShop(t, setup{facilitators: one(f), ledger: l, chain: chain}), l, f
}

func TestPayLedgerFailureSendsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(*failingBook)
		want   Status
	}{
		// Only the books know whether it was sent before.
		"read":   {func(b *failingBook) { b.read.Store(true) }, Open},
		"insert": {func(b *failingBook) { b.insert.Store(true) }, Unavailable},
	} {
		bubble(t, name, func(t *testing.T) {
			s, l, f := failing(t, nil)
			c.breaks(l)
			b := newBuyer(1)
			got := s.pay(b.v2(t))
			require.Equal(t, c.want, got.Status)
			require.Equal(t, "ledger_unavailable", got.Reason)
			require.Empty(t, f.Calls(settleCall))
			require.NoError(t, s.Wait(t.Context()), "nothing is under way")
			l.read.Store(false)
			l.insert.Store(false)
			s.requireState(b, "")
			require.Equal(t, Settled, s.pay(b.v2(t)).Status)
		})
	}
}

// The ledger may have committed what it does not say that it has: its connection was lost, or its server is slow.
func TestUnknownCommitDoesNotBlockPayer(t *testing.T) {
	for name, commits := range map[string]func(s *shop, l *failingBook, i ledger.Intent){
		"before the answer was lost": func(s *shop, l *failingBook, i ledger.Intent) {
			require.NoError(s.t, l.book.InsertIntent(s.t.Context(), i))
		},
		"a second later": func(s *shop, l *failingBook, i ledger.Intent) {
			go func() {
				time.Sleep(time.Second)
				assert.NoError(s.t, l.book.InsertIntent(s.t.Context(), i))
			}()
		},
	} {
		bubble(t, name, func(t *testing.T) {
			s, l, f := failing(t, nil)
			l.committing = func(i ledger.Intent) { commits(s, l, i) }
			b := newBuyer(1)
			require.Equal(t, Unavailable, s.pay(b.v2(t)).Status)
			require.NoError(t, s.Wait(t.Context()))
			s.requireState(b, "")
			l.committing = nil
			require.Empty(t, f.Calls(settleCall))
			require.Equal(t, Settled, s.pay(b.v2(t)).Status, "the same payment is taken")
		})
	}
}

// An intent that is being settled is never taken back, whoever sends its payload again meanwhile.
func TestUnknownCommitRetryWaitsForWithdrawal(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s, l, f := failing(t, nil)
		l.committing = func(ledger.Intent) { l.committing = nil } // the first one is lost, and not committed
		b := newBuyer(1)
		first := make(chan Outcome, 1)
		go func() { first <- s.pay(b.v2(t)) }()
		synctest.Wait()
		second := s.pay(b.v2(t))
		require.Equal(t, Unavailable, (<-first).Status)
		require.Equal(t, Settled, second.Status)
		require.NoError(t, s.Wait(t.Context()))
		s.requireState(b, ledger.IntentSettled)
		require.Len(t, f.Calls(settleCall), 1)
	})
}

func TestPayReportsChargeIfLedgerFails(t *testing.T) {
	for _, withChain := range []bool{false, true} {
		name := "without a chain"
		if withChain {
			name = "with a chain"
		}
		bubble(t, name, func(t *testing.T) {
			var chain *payoffertest.Chain
			b := newBuyer(1)
			if withChain {
				chain = newChain(t)
			}
			s, l, f := failing(t, chain)
			if withChain {
				settlesOn(f, chain, b)
			}
			l.settle.Store(true)
			l.record.Store(true)
			got := s.pay(b.v2(t))
			require.Equal(t, Settled, got.Status)
			s.requireState(b, ledger.IntentSettling)
			require.Contains(t, s.logs.String(), got.Response.Transaction)
			require.Equal(t, Open, s.pay(b.v2(t)).Status, "the ledger does not know it yet")

			wait := time.Sleep // where no chain tells, it is recorded by whoever knows
			if withChain {
				wait = s.run
			}
			wait(10 * time.Minute)
			l.settle.Store(false)
			l.record.Store(false)
			wait(2 * time.Minute)
			s.requireState(b, ledger.IntentSettled)
			require.Equal(t, got, s.pay(b.v2(t)))
			require.Len(t, f.Calls(settleCall), 1)
			require.NoError(t, s.Wait(t.Context()))
		})
	}
}

func TestLedgerFailureKeepsOutcomeOpen(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s, l, f := failing(t, nil)
		f.Script(settleCall, neverSent, payoffertest.FacilitatorReply{})
		l.note.Store(true)
		b := newBuyer(1)
		require.Equal(t, Open, s.pay(b.v2(t)).Status)
		l.note.Store(false)
		require.True(t, s.requireState(b, ledger.IntentSettling).Leased(s.Now()))
		s.run(3 * time.Minute)
		s.requireState(b, ledger.IntentSettled)
	})
}

func TestIntentStaysOpenIfWithdrawFails(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s, l, f := failing(t, nil)
		goneAfterVerify(f)
		l.withdraw.Store(true)
		b := newBuyer(1)
		require.Equal(t, Open, s.pay(b.v2(t)).Status)
		s.requireState(b, ledger.IntentSettling)
	})
}

func TestRefusalIsRetriedIfLedgerFails(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		chain := newChain(t)
		s, l, f := failing(t, chain)
		f.Script(settleCall, neverSent)
		b := newBuyer(1)
		require.Equal(t, Open, s.pay(b.v2(t)).Status)
		chain.Kill(b.key(), "authorization_canceled")
		l.refuse.Store(true)
		s.run(time.Minute)
		require.Equal(t, Open, s.pay(b.v2(t)).Status)
		l.refuse.Store(false)
		s.run(5 * time.Minute)
		s.requireState(b, ledger.IntentRefused)
	})
}

// decidedBook settles an intent by the chain just before it is noted, as the
// observer of another instance may.
type decidedBook struct{ book }

func (d *decidedBook) Apply(ctx context.Context, key ledger.IntentKey, c ledger.IntentChange) (ledger.Intent, error) {
	if i, err := d.book.Apply(ctx, key, ledger.IntentChange{Event: accounting.EventProven, Transaction: someTransaction}); err != nil {
		return i, err
	}
	return d.book.Apply(ctx, key, c)
}

func TestPayReturnsOutcomeOfObserver(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		f.Script(settleCall, answerLost)
		s := newShop(t, setup{facilitators: one(f), ledger: &decidedBook{openLedger(t)}})
		got := s.pay(newBuyer(1).v2(t))
		require.Equal(t, Settled, got.Status)
		require.Equal(t, someTransaction, got.Response.Transaction)
		require.Equal(t, "42000000", got.Response.Amount)
	})
}
