package operator

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
)

func TestACorrectionReplacesAmountAndTime(t *testing.T) {
	o := newOffice(t)
	o.must(o.enter(t.Context(), inv7(4200, "")))

	lower := o.must(o.correct(t.Context(), inv7(4000, "the bank kept a fee")))
	require.Equal(t, int64(1), lower.Revision)
	require.Equal(t, int64(4000), o.received(), "also downwards")

	moved := inv7(0, "of the day before")
	moved.OccurredAt = time.Unix(o.unix-86_400, 0)
	earlier := o.must(o.correct(t.Context(), moved))
	require.Equal(t, int64(4000), earlier.Amount, "what is not given stays")
	require.Equal(t, o.unix-86_400, earlier.OccurredAt)
	require.Equal(t, int64(2), earlier.Revision)

	require.Equal(t, earlier, o.must(o.correct(t.Context(), inv7(4000, "again"))), "the same again changes nothing")
	require.Equal(t, []string{
		"confirmed entered: ", "confirmed corrected: the bank kept a fee", "confirmed corrected: of the day before",
	}, o.history())
	_, err := o.correct(t.Context(), inv7(0, "x"))
	requireRefusal(t, err, Invalid, "nothing to correct")
}

func TestAReversedReceiptStaysAndDoesNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		seen func(o *office)
		e    manual.Entry
	}{
		"an entry":       {func(o *office) { o.must(o.enter(t.Context(), inv7(4200, ""))) }, inv7(0, "recalled")},
		"a card payment": {func(o *office) { o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed) }, manual.Entry{Rail: "card", Reference: "pi_1", Reason: "recalled"}},
		"a shop's sale":  {func(o *office) { o.sees("pack", "s", ledger.LevelProvider, ledger.StatusConfirmed) }, manual.Entry{Rail: "pack", Reference: "s", Reason: "recalled"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			c.seen(o)
			counted := o.received()
			before, found, err := o.find(t.Context(), c.e)
			require.NoError(t, err)
			require.True(t, found)

			reversed := o.must(o.reverse(t.Context(), c.e))
			require.Equal(t, ledger.StatusReversed, reversed.Status)
			require.Equal(t, before.Amount, reversed.Amount)
			require.Equal(t, before.EvidenceLevel, reversed.EvidenceLevel)
			require.Zero(t, o.received())
			require.Equal(t, reversed.Version, o.must(o.reverse(t.Context(), c.e)).Version, "the same again changes nothing")
			require.Equal(t, "reversed reversed_by_operator: recalled", o.history()[1])

			restored := o.must(o.restore(t.Context(), c.e))
			require.Equal(t, before.Status, restored.Status)
			require.Equal(t, counted, o.received())
			require.Equal(t, restored.Version, o.must(o.restore(t.Context(), c.e)).Version, "the same again changes nothing")
			c.e.Reason = "another one"
			_, err = o.restore(t.Context(), c.e)
			requireRefusal(t, err, Conflict, "nothing to restore")
		})
	}
}

// The last word of the operator holds, whatever the clock says.
func TestReversingAndRestoringHoldWithinOneSecondAndAfterTheClockWasSetBack(t *testing.T) {
	o := newOffice(t)
	e := inv7(4200, "x")
	o.must(o.enter(t.Context(), e))
	for range 3 {
		require.Equal(t, ledger.StatusReversed, o.must(o.reverse(t.Context(), e)).Status)
		require.Equal(t, ledger.StatusConfirmed, o.must(o.restore(t.Context(), e)).Status)
	}
	o.unix += 86_400
	o.must(o.reverse(t.Context(), e))
	o.unix -= 86_400
	require.Equal(t, ledger.StatusConfirmed, o.must(o.restore(t.Context(), e)).Status)
}

func TestACorrectionLiftsAReversal(t *testing.T) {
	o := newOffice(t)
	o.must(o.enter(t.Context(), inv7(4200, "")))
	o.must(o.reverse(t.Context(), inv7(0, "recalled")))
	_, err := o.enter(t.Context(), inv7(4200, ""))
	requireRefusal(t, err, Conflict, "restore it, or correct it")

	corrected := o.must(o.correct(t.Context(), inv7(2000, "half came back")))
	require.Equal(t, ledger.StatusConfirmed, corrected.Status)
	require.Equal(t, int64(2000), o.received())

	o.must(o.reverse(t.Context(), inv7(0, "recalled")))
	require.Equal(t, ledger.StatusConfirmed, o.must(o.correct(t.Context(), inv7(2000, "no"))).Status, "also with the amount that stands")
}

func TestAReversalByTheProviderIsNotRestored(t *testing.T) {
	o := newOffice(t)
	o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed,
		ledger.Return{ID: "dp_1", Kind: ledger.ReturnReversal, Gone: true, At: o.unix})
	_, err := o.restore(t.Context(), manual.Entry{Rail: "card", Reference: "pi_1", Reason: "x"})
	requireRefusal(t, err, Conflict, "the provider took the money back")
	require.Zero(t, o.received())
}

func TestWhatAChainShowsIsNotReversedByHand(t *testing.T) {
	o := newOffice(t)
	o.sees("usdc", "eip155:8453:0x1:0", ledger.LevelChain, ledger.StatusConfirmed)
	_, err := o.reverse(t.Context(), manual.Entry{Rail: "usdc", Reference: "eip155:8453:0x1:0", Reason: "x"})
	requireRefusal(t, err, Conflict, "stands as long as the chain has it")
	require.Equal(t, int64(4200), o.received())
}

func TestMoneyThatNeverCameIsNotReversed(t *testing.T) {
	o := newOffice(t)
	o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusDropped)
	_, err := o.reverse(t.Context(), manual.Entry{Rail: "card", Reference: "pi_1", Reason: "x"})
	requireRefusal(t, err, Conflict, "never became money")
}

func TestChangesNeedAReasonAndAKnownReference(t *testing.T) {
	o := newOffice(t)
	o.must(o.enter(t.Context(), inv7(4200, "")))
	for name, change := range map[string]func(context.Context, manual.Entry) (ledger.Receipt, error){
		"correct": o.correct, "reverse": o.reverse, "restore": o.restore,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := change(t.Context(), inv7(4100, ""))
			requireRefusal(t, err, Invalid, "reason is missing")
			_, err = change(t.Context(), manual.Entry{Rail: "transfer", Reference: "INV-8", Amount: 4100, Reason: "x"})
			requireRefusal(t, err, Unknown, `no receipt of the rail transfer has the reference "INV-8"`)
		})
	}
	require.Len(t, o.history(), 1)
}

// A rail keeps its receipts when its account changes, as a card rail's does when
// a payment link is configured.
func TestReceiptsOfARailsFormerAccountAreFound(t *testing.T) {
	o := newOffice(t)
	e := manual.Entry{Rail: "card", Reference: "INV-9", Amount: 4200, Reason: "x"}
	configured := o.Accounts
	o.Accounts = []ledger.Account{{Offer: testOffer, ID: "operator/pay.example/card", Rail: "card"}}
	require.NoError(t, o.book.Register(t.Context(), o.Accounts...))
	former := o.must(o.enter(t.Context(), e))

	o.Accounts = configured
	require.Equal(t, former, o.must(o.enter(t.Context(), e)), "the same money is not entered twice")
	require.Equal(t, ledger.StatusReversed, o.must(o.reverse(t.Context(), e)).Status)
	require.Zero(t, o.received())

	o.Accounts = nil
	require.Equal(t, ledger.StatusConfirmed, o.must(o.restore(t.Context(), e)).Status, "nor lost when the rail was removed")
}

// meanwhile lets another instance write between what a desk reads and what it
// writes, for which it asks the time.
func (o *office) meanwhile(write func()) {
	now, asked := o.Now, 0
	o.Now = func() time.Time {
		if asked++; asked == 2 {
			write()
		}
		return now()
	}
}

func TestOneOfTwoEntriesAtOneMomentIsToldOfTheOther(t *testing.T) {
	o := newOffice(t)
	elsewhere := &Desk{Offer: o.Offer, Accounts: o.Accounts, Ledger: o.book, Page: page, Now: o.Now}
	o.meanwhile(func() { o.must(elsewhere.enter(t.Context(), inv7(4300, ""))) })
	_, err := o.enter(t.Context(), inv7(4200, ""))
	requireRefusal(t, err, Conflict, "at the same moment")

	o.meanwhile(func() { o.must(elsewhere.correct(t.Context(), inv7(4500, "x"))) })
	_, err = o.correct(t.Context(), inv7(4400, "x"))
	requireRefusal(t, err, Conflict, "at the same moment")
	require.Equal(t, int64(4500), o.received())
}

// No money goes back before it came; what moves both within one day is as it may be.
func TestACorrectionDatesNoPaymentAfterItsRefunds(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	berlin := time.FixedZone("CET", 3600)
	for name, c := range map[string]struct {
		to       time.Time
		restored bool
		refused  bool
	}{
		"before":                         {to: noon.AddDate(0, 0, -1)},
		"the day of the refund":          {to: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)},
		"later on that day":              {to: noon.Add(3 * time.Hour)},
		"that day in another zone":       {to: time.Date(2026, 11, 20, 0, 0, 0, 0, berlin)},
		"the day after":                  {to: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), refused: true},
		"the day after a restored one":   {to: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), restored: true},
		"the day after, in another zone": {to: time.Date(2026, 11, 21, 0, 0, 0, 0, berlin), refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			entered := inv7(4200, "")
			entered.OccurredAt = noon.AddDate(0, 0, -5)
			o.must(o.enter(t.Context(), entered))
			back := inv7(0, "a part")
			back.Refund, back.OccurredAt = "10", noon
			_, err := o.Desk.refund(t.Context(), back)
			require.NoError(t, err)
			if c.restored {
				o.must(o.restore(t.Context(), inv7(0, "it was none")))
			}
			moved := inv7(0, "the bank's date")
			moved.OccurredAt = c.to
			got, err := o.correct(t.Context(), moved)
			if c.refused {
				requireRefusal(t, err, Conflict, "10 USD of it went back on 2026-11-20T12:00:00Z, which is before")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.to.Unix(), got.OccurredAt)
		})
	}
}
