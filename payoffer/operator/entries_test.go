package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

func TestEntryCounts(t *testing.T) {
	o := newFixture(t)
	e := inv7("42", "statement of November")
	e.Date = "2026-11-20T12:00:00Z"
	receipt := o.must("enter", e)
	require.Equal(t, "operator/pay.example/transfer", receipt.Account)
	require.Equal(t, "confirmed manual face", receipt.Status+" "+receipt.Evidence+" "+receipt.ValueBasis)
	require.Equal(t, "2026-11-20T12:00:00Z", receipt.OccurredAt)
	require.Equal(t, int64(4200), o.received())
	require.Equal(t, []string{"confirmed entered: statement of November"}, o.history())
	require.NotContains(t, string(receipt.Proof), "statement", "the reason is not published")

	e.Reference, e.Date = "INV-8", ""
	require.Equal(t, timestamp(o.unix), o.must("enter", e).OccurredAt, "now by default")
}

func TestRepeatedEntryChangesNothing(t *testing.T) {
	for _, zone := range []string{"Z", "+01:00", "-05:00", "+05:45", "+14:00", "-12:00"} {
		o := newFixture(t)
		e := inv7("42", "")
		e.Date = "2026-11-20T00:00:00" + zone
		first := o.must("enter", e)
		o.unix += 3600
		for _, again := range []string{"", e.Date, "2026-11-20", "2026-11-20T00:00:00+01:00"} { // the day in another time zone
			e.Date = again
			require.Equal(t, first, o.must("enter", e), "%q after %s", again, zone)
		}
		require.Len(t, o.history(), 1)
		for _, other := range []string{"2026-11-19T00:00:00", "2026-11-21T00:00:00", "2026-11-20T00:00:01"} {
			e.Date = other + zone
			o.refuses("enter", e, Conflict, "entered already, with 42.00 USD")
		}
		o.refuses("enter", inv7("43", ""), Conflict, "void it and enter it again")
		require.Equal(t, int64(4200), o.received())
	}
}

func TestVoidedEntryEnteredAgain(t *testing.T) {
	onEachLedger(t, func(t *testing.T, o *fixture) {
		day := func() string {
			row, found, err := o.book.Receipt(t.Context(), testOffer, o.account("transfer").ID, "INV-7")
			require.NoError(t, err)
			require.True(t, found)
			return report.Day(row)
		}
		e := inv7("42.50", "statement")
		e.Date = "2026-11-20T00:00:00+01:00"
		o.must("enter", e)
		require.Equal(t, "2026-11-20", day())
		o.must("refund", inv7("10", "a part"))
		require.Equal(t, "reversed", o.must("void", inv7("", "typo")).Status)
		require.Zero(t, o.received())
		require.Equal(t, "2026-11-20", day())

		o.refuses("enter", inv7("5", ""), Conflict, "10 USD of \"INV-7\" was refunded, which is more")
		e = inv7("40", "the bank kept a fee")
		e.Date = "2026-11-19"
		row := o.must("enter", e)
		require.Equal(t, "confirmed 4000 1000 2026-11-19", row.Status+" "+row.AmountAtomic+" "+row.RefundedAtomic+" "+row.Day)
		require.Equal(t, int64(3000), o.received(), "the refund stays")
		require.Equal(t, row, o.must("enter", e), "the same again changes nothing")

		page := must(o.Receipts(t.Context(), 0, MaxPage))(t)
		require.Len(t, page.Receipts, 1)
		var history []string
		for _, change := range page.Receipts[0].History {
			history = append(history, change.Status+" "+change.AmountAtomic+" "+change.Cause+": "+change.Reason)
		}
		require.Equal(t, []string{
			"confirmed 4250 entered: statement", "confirmed 4250 refunded_by_operator: a part",
			"reversed 4250 voided_by_operator: typo", "confirmed 4000 entered: the bank kept a fee",
		}, history)
		_, end := o.movements()
		require.EqualValues(t, 3000, end.ReceivedCents)
	})
}

func TestMalformedEntriesAreRefused(t *testing.T) {
	o := newFixture(t)
	for name, c := range map[string]struct {
		entry manual.Entry
		kind  Kind
		want  string
	}{
		"no action":           {manual.Entry{Rail: "transfer", Reference: "INV-8", Amount: "42"}, Invalid, "enter, void, restore, refund, value, own, redact"},
		"a reversal's amount": {manual.Entry{Action: "void", Rail: "transfer", Reference: "INV-8", Amount: "42", Reason: "x"}, Invalid, "takes no amount; leave it out"},
		"a wrong amount":      {manual.Entry{Action: "enter", Rail: "transfer", Reference: "INV-8", Amount: "4.2e1"}, Invalid, "42.50"},
		"no amount":           {manual.Entry{Action: "enter", Rail: "transfer", Reference: "INV-8"}, Invalid, "amount is missing"},
		"a wrong date":        {manual.Entry{Action: "enter", Rail: "transfer", Reference: "INV-8", Amount: "42", Date: "20.11."}, Invalid, "2026-11-20"},
		"a line break":        {manual.Entry{Action: "enter", Rail: "transfer", Reference: "a\nb", Amount: "42"}, Invalid, "cannot be printed"},
		"an e-mail address":   {manual.Entry{Action: "enter", Rail: "transfer", Reference: "jane@example.org", Amount: "42"}, Invalid, "use an invoice number"},
		"unknown rail":        {manual.Entry{Action: "enter", Rail: "cash", Reference: "INV-8", Amount: "42"}, Unknown, "write one of card, usdc, btc, lightning, transfer, tip-jar, pack, or add the option"},
		"its reversal":        {manual.Entry{Action: "void", Rail: "cash", Reference: "INV-8", Reason: "x"}, Unknown, "write one of card, usdc, btc, lightning, transfer, tip-jar, pack, or add the option"},
		"a chain":             {manual.Entry{Action: "enter", Rail: "usdc", Reference: "INV-8", Amount: "42"}, Conflict, "are read from the chain"},
	} {
		t.Run(name, func(t *testing.T) {
			requireRefusal(t, errorOf(o.Enter(t.Context(), c.entry)), c.kind, c.want)
		})
	}
	for _, action := range []string{"void", "restore", "redact", "own", "value", "refund"} {
		e := manual.Entry{Rail: "transfer", Reference: "INV-8"}
		if action == "value" || action == "refund" {
			e.Amount = "1"
		}
		o.refuses(action, e, Invalid, "reason is missing")
		e.Reason = "x"
		o.refuses(action, e, Unknown, `no receipt of the rail transfer has the reference "INV-8"`)
	}
	require.Empty(t, o.history())
}

func TestEntryOfObservedPaymentIsRefused(t *testing.T) {
	o := newFixture(t)
	o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed)
	o.sees("pack", "sale-1", ledger.LevelProvider, ledger.StatusConfirmed)
	before := o.history()
	for rail, reference := range map[string]string{"card": "pi_1", "pack": "sale-1"} {
		_, err := o.do("enter", manual.Entry{Rail: rail, Reference: reference, Amount: "42"})
		requireRefusal(t, err, Conflict, "is already recorded by its source (evidence")
	}
	require.Equal(t, before, o.history())
}

// A provider's payment counts under the provider's id, in addition to an entry of the same money under another.
func TestEntryOnObservedRailHasHint(t *testing.T) {
	for _, c := range []struct {
		observed, rail string
		hinted         bool
	}{{"pack", "pack", true}, {"card", "card", true}, {"card", "pack", false}, {"transfer", "transfer", false}} {
		o := newFixture(t)
		o.health = observe.Health{Rail: c.observed}
		hints := o.must("enter", manual.Entry{Rail: c.rail, Reference: "INV-9", Amount: "42"}).Hints
		require.Equal(t, c.hinted, len(hints) == 1, "%s: %s", c, hints)
	}
}

func TestEntryBelowPriceOfGateHasHint(t *testing.T) {
	for amount, hinted := range map[string]bool{"41.99": true, "42": false, "50": false} {
		for _, gated := range []bool{true, false} {
			o := newFixture(t)
			if gated {
				o.Offer.Gates = []offer.Gate{{Start: "https://example.org/members/"}}
			}
			hints := o.must("enter", manual.Entry{Rail: "transfer", Reference: "INV-9", Amount: json.Number(amount)}).Hints
			require.Equal(t, hinted && gated, slices.Contains(hints, "it is less than the price: it opens a gate only if it reached the price of its time"), "%s: %s", amount, hints)
		}
	}
}

// A payment is entered by hand unless it is read from a chain.
func TestEntriesFollowTheSourceOfTheRail(t *testing.T) {
	o := newFixture(t)
	for _, rail := range o.Offer.Rails {
		o.health = observe.Health{Rail: rail.Name()}
		row, err := o.Enter(t.Context(), manual.Entry{Action: "enter", Rail: rail.Name(), Reference: "INV-9", Amount: "42"})
		if rail.Source() == offer.SourceChain {
			requireRefusal(t, err, Conflict, "payments by "+rail.Name()+" are read from the chain")
			continue
		}
		require.NoError(t, err, rail.Name())
		require.Equal(t, rail.Source() == offer.SourceProvider, len(row.Hints) == 1, "%s: %s", rail.Name(), row.Hints)
	}
}

func TestEntryOfTestPaymentNotCounted(t *testing.T) {
	for _, test := range []bool{true, false} {
		o := newFixture(t)
		account := ledger.Account{Offer: testOffer, ID: "stripe/plink_2", Rail: "card", Testnet: test}
		require.NoError(t, o.book.Register(t.Context(), account))
		o.Accounts[0] = account
		row := o.must("enter", manual.Entry{Rail: "card", Reference: "pi_7", Amount: "42", Reason: "x"})
		require.Equal(t, !test, row.Counted)
		require.Equal(t, test, len(row.Hints) == 1)
	}
}

func TestVoidedReceiptStaysUncounted(t *testing.T) {
	for rail, level := range map[string]ledger.EvidenceLevel{"card": ledger.LevelSigned, "pack": ledger.LevelProvider} {
		t.Run(rail, func(t *testing.T) {
			o := newFixture(t)
			o.sees(rail, "id", level, ledger.StatusConfirmed)
			e := manual.Entry{Rail: rail, Reference: "id", Reason: "recalled"}
			reversed := o.must("void", e)
			require.Equal(t, "reversed 4200", reversed.Status+" "+reversed.AmountAtomic)
			require.Zero(t, o.received())
			require.Equal(t, reversed.Version, o.must("void", e).Version, "the same again changes nothing")
			require.Equal(t, "reversed voided_by_operator: recalled", o.history()[1])

			restored := o.must("restore", e)
			require.Equal(t, "confirmed", restored.Status)
			require.Equal(t, int64(4200), o.received())
			require.Equal(t, restored.Version, o.must("restore", e).Version, "the same again changes nothing")
			e.Reason = "another one"
			o.refuses("restore", e, Conflict, "no such refund by you")
		})
	}
}

// The operator's last change holds, whatever the clock is.
func TestVoidHoldsAfterClockSetBack(t *testing.T) {
	o := newFixture(t)
	o.must("enter", inv7("42", ""))
	for _, reason := range []string{"first", "second", "third"} {
		require.Equal(t, "reversed", o.must("void", inv7("", "x")).Status)
		require.Equal(t, "confirmed", o.must("enter", inv7("42", reason)).Status)
	}
	o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed)
	e := manual.Entry{Rail: "card", Reference: "pi_1", Reason: "x"}
	for range 3 {
		require.Equal(t, "reversed", o.must("void", e).Status)
		require.Equal(t, "confirmed", o.must("restore", e).Status)
	}
	o.unix += 86_400
	o.must("void", e)
	o.unix -= 86_400
	require.Equal(t, "confirmed", o.must("restore", e).Status)
}

// A script that sends its request again must not count money that was taken out. Only a new entry counts it again.
func TestVoidedEntryNeedsNewEntry(t *testing.T) {
	for _, reason := range []string{"", "statement"} {
		o := newFixture(t)
		o.must("enter", inv7("42", reason))
		o.must("void", inv7("", "bounced"))
		o.refuses("enter", inv7("42", reason), Conflict, "give a reason that was not used")
		o.refuses("restore", inv7("", "never mind"), Conflict, "enter it again instead")
		require.Zero(t, o.received())
		require.Equal(t, "confirmed", o.must("enter", inv7("42", "paid again")).Status)
	}
}

func TestLikelyTypoNeedsConfirmation(t *testing.T) {
	for name, c := range map[string]struct {
		e    manual.Entry
		says string
	}{
		"just too much":        {manual.Entry{Reference: "INV-8", Amount: "126.01"}, "the amount is 126.01 US dollars, and the price 42.00"},
		"three at once":        {manual.Entry{Reference: "INV-8", Amount: "126"}, ""},
		"a digit too few":      {manual.Entry{Reference: "INV-8", Amount: "4.20"}, "the amount is 4.20"},
		"a third":              {manual.Entry{Reference: "INV-8", Amount: "14"}, ""},
		"another year":         {manual.Entry{Reference: "INV-8", Amount: "42", Date: "2025-10-16"}, "the date 2025-10-16 is more than 400 days ago"},
		"last year":            {manual.Entry{Reference: "INV-8", Amount: "42", Date: "2025-10-20"}, ""},
		"another case":         {manual.Entry{Reference: "inv-7", Amount: "42"}, "the reference is almost \"INV-7\""},
		"no dash":              {manual.Entry{Reference: "INV7", Amount: "42"}, "the reference is almost \"INV-7\""},
		"another dash":         {manual.Entry{Reference: "INV\u20137", Amount: "42"}, "the reference is almost \"INV-7\""},
		"wide letters":         {manual.Entry{Reference: "ＩＮＶ-7", Amount: "42"}, "the reference is almost \"INV-7\""},
		"another number":       {manual.Entry{Reference: "INV-77", Amount: "42"}, ""},
		"a reference of cards": {manual.Entry{Rail: "card", Reference: "inv7", Amount: "42"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := newFixture(t)
			o.must("enter", inv7("42", ""))
			c.e.Rail = cmp.Or(c.e.Rail, "transfer")
			if c.says != "" {
				o.refuses("enter", c.e, Conflict, c.says)
				require.ErrorContains(t, errorOf(o.do("enter", c.e)), "--sure")
				require.Equal(t, int64(4200), o.received())
				c.e.Sure = true
			}
			row := o.must("enter", c.e)
			require.Equal(t, "confirmed", row.Status)
			require.Equal(t, row, o.must("enter", c.e), "the same again changes nothing")
		})
	}
}

// One keyboard composes a letter with its accent, and another one does not.
func TestReferenceUnicodeNormalization(t *testing.T) {
	o := newFixture(t)
	composed := o.must("enter", manual.Entry{Rail: "transfer", Reference: "Beitr\u00e4ge 7", Amount: "42"})
	require.Equal(t, composed, o.must("enter", manual.Entry{Rail: "transfer", Reference: "Beitra\u0308ge 7", Amount: "42"}))
	require.Equal(t, "reversed", o.must("void", manual.Entry{Rail: "transfer", Reference: "Beitra\u0308ge 7", Reason: "x"}).Status)
}

// The operator tests the checkout with a card, or a transfer of 42 USD.
func TestMarkOwnPayment(t *testing.T) {
	onEachLedger(t, func(t *testing.T, o *fixture) {
		o.must("enter", inv7("42", ""))
		o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed)
		o.sees("card", "pi_2", ledger.LevelSigned, ledger.StatusConfirmed)
		o.unix += 3600
		for _, e := range []manual.Entry{inv7("", "a test"), {Rail: "card", Reference: "pi_1", Reason: "a test"}} {
			row := o.must("own", e)
			require.Equal(t, row, o.must("own", e), "the same again changes nothing")
		}
		o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed) // the provider reports it again
		rows, end := o.movements()
		require.EqualValues(t, 12600, end.ReceivedCents)
		require.EqualValues(t, 4200, end.ExternalCents)
		var own []string
		for _, m := range rows {
			own = append(own, fmt.Sprint(m.ID, " ", m.Own, " ", m.RecordedAt == timestamp(o.unix)))
		}
		require.Equal(t, []string{"INV-7 true true", "pi_1 true true", "pi_2 false false"}, own)
		require.Contains(t, o.history(), "confirmed marked_own: a test")

		o.sees("usdc", "transfer", ledger.LevelChain, ledger.StatusConfirmed)
		o.refuses("own", manual.Entry{Rail: "usdc", Reference: "transfer", Reason: "x"}, Conflict, "ignore_payer")
	})
}

func TestVoidRefusedIfSourceDecides(t *testing.T) {
	o := newFixture(t)
	o.sees("card", "disputed", ledger.LevelSigned, ledger.StatusConfirmed, ledger.Return{ID: "dp_1", Kind: ledger.ReturnReversal, Gone: true, At: o.unix})
	_, err := o.do("restore", manual.Entry{Rail: "card", Reference: "disputed", Reason: "x"})
	requireRefusal(t, err, Conflict, "still disputed at the provider")
	require.Zero(t, o.received())
	o.sees("usdc", "transfer", ledger.LevelChain, ledger.StatusConfirmed)
	_, err = o.do("void", manual.Entry{Rail: "usdc", Reference: "transfer", Reason: "x"})
	requireRefusal(t, err, Conflict, "is a transfer on its chain")
	require.Equal(t, int64(4200), o.received())
	o.sees("card", "failed", ledger.LevelSigned, ledger.StatusDropped)
	o.refuses("void", manual.Entry{Rail: "card", Reference: "failed", Reason: "x"}, Conflict, "was never paid")
}

// A rail keeps its receipts when its account changes, such as that of a card when a payment link is configured.
func TestReceiptOfRemovedAccountIsFound(t *testing.T) {
	o := newFixture(t)
	e := manual.Entry{Rail: "card", Reference: "INV-9", Amount: "42", Reason: "x"}
	configured := o.Accounts
	o.Accounts = []ledger.Account{{Offer: testOffer, ID: "operator/pay.example/card", Rail: "card"}}
	require.NoError(t, o.book.Register(t.Context(), o.Accounts...))
	former := o.must("enter", e)
	o.Accounts = configured
	require.Equal(t, former, o.must("enter", e), "the same money is not entered twice")
	e.Amount = ""
	require.Equal(t, "reversed", o.must("void", e).Status)
	require.Zero(t, o.received())
	o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed)
	e.Reference, o.Accounts = "pi_1", nil
	require.Equal(t, "reversed", o.must("void", e).Status)
	require.Equal(t, "confirmed", o.must("restore", e).Status, "nor lost after the rail was removed")
}

// meanwhile lets another instance write between the reading and the commit of an entry, which asks for the time.
func (f *fixture) meanwhile(write func()) {
	now, asked := f.Now, 0
	f.Now = func() time.Time {
		if asked++; asked == 2 {
			write()
		}
		return now()
	}
}

func TestConcurrentEntriesConflict(t *testing.T) {
	o := newFixture(t)
	elsewhere := &fixture{t: t, Service: &Service{Offer: o.Offer, Accounts: o.Accounts, Ledger: o.book, Page: page, Now: o.Now, Health: o.Health}}
	o.meanwhile(func() { elsewhere.must("enter", inv7("43", "")) })
	o.refuses("enter", inv7("42", ""), Conflict, "at the same moment")
	o.Now = elsewhere.Now
	o.meanwhile(func() { elsewhere.must("refund", inv7("30", "there")) })
	o.refuses("refund", inv7("30", "here"), Conflict, "at the same moment")
	require.Equal(t, int64(1300), o.received())
}

func TestReceiptPaging(t *testing.T) {
	o := newFixture(t)
	for n := range 5 {
		o.must("enter", manual.Entry{Rail: "transfer", Reference: "INV-" + strconv.Itoa(n), Amount: "42"})
	}
	var seen []string
	for before := int64(0); ; {
		page := must(o.Receipts(t.Context(), before, 2))(t)
		for _, r := range page.Receipts {
			seen = append(seen, r.ID)
			require.Len(t, r.History, 1)
			require.Equal(t, "https://pay.example/v1/receipt/"+r.ID, r.Page)
		}
		if page.Next == nil {
			break
		}
		before = *page.Next
	}
	require.Equal(t, []string{"INV-4", "INV-3", "INV-2", "INV-1", "INV-0"}, seen)
	require.NotContains(t, o.log.String(), "/v1/receipt/")
}

func TestUnavailableLedgerErrors(t *testing.T) {
	o := newFixture(t)
	o.Summary = func(context.Context) (report.Summary, error) { return report.Summary{}, ledger.ErrNotOpen }
	require.NoError(t, o.book.Close())
	ctx := t.Context()
	outcome := IntentOutcome{Network: "base", From: "0x1", Nonce: "0x2", Outcome: "not_paid", Reason: "x"}
	changed := []error{errorOf(o.do("enter", inv7("42", ""))), errorOf(o.do("void", inv7("", "x")))}
	for _, err := range append(changed,
		errorOf(o.Received(ctx)), errorOf(o.Receipts(ctx, 0, 1)), errorOf(o.Intents(ctx, 0, 1)),
		errorOf(o.Resolve(ctx, outcome)), errorOf(o.Feed(ctx, "")), errorOf(o.Feed(ctx, "0"))) {
		requireRefusal(t, err, Unavailable, "the ledger is not available now")
		require.ErrorIs(t, err, ledger.ErrNotOpen)
	}
	for _, err := range changed {
		requireRefusal(t, err, Unavailable, "may or may not be stored")
	}
}

func TestRotateKey(t *testing.T) {
	o := newFixture(t)
	var lost error
	o.Rotate = func(_ context.Context, revoke bool) (string, time.Time, error) {
		require.True(t, revoke)
		return "did:web:pay.example#key", time.Unix(o.unix+600, 0), lost
	}
	key := must(o.RotateKey(t.Context(), KeyRotation{Revoke: true}))(t)
	require.Equal(t, RotatedKey{testOffer, "did:web:pay.example#key", "2026-11-21T12:10:00Z", true}, key)
	require.Contains(t, o.log.String(), "the operator rotated the signing key")

	lost = errors.New("no route to the storage")
	err := errorOf(o.RotateKey(t.Context(), KeyRotation{Revoke: true}))
	requireRefusal(t, err, Unavailable, "the keys are unchanged")
	require.ErrorIs(t, err, lost)
}
