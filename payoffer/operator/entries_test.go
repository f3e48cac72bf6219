package operator

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
)

func TestEnteredMoneyCounts(t *testing.T) {
	o := newOffice(t)
	e := inv7(4200, "statement of November")
	e.OccurredAt = time.Unix(o.unix-86_400, 0)

	receipt := o.must(o.enter(t.Context(), e))

	require.Equal(t, "operator/pay.example/transfer", receipt.Account)
	require.Equal(t, ledger.StatusConfirmed, receipt.Status)
	require.Equal(t, ledger.LevelManual, receipt.EvidenceLevel)
	require.Equal(t, o.unix-86_400, receipt.OccurredAt)
	require.Equal(t, int64(4200), o.received())
	require.Equal(t, []string{"confirmed entered: statement of November"}, o.history())
	require.NotContains(t, string(receipt.Evidence), "statement", "the reason is published nowhere")

	e.Reference, e.OccurredAt = "INV-8", time.Time{}
	require.Equal(t, o.unix, o.must(o.enter(t.Context(), e)).OccurredAt, "now by default")
}

func TestEnteringTheSameAgainChangesNothing(t *testing.T) {
	o := newOffice(t)
	e := inv7(4200, "")
	first := o.must(o.enter(t.Context(), e))
	o.unix += 3600
	require.Equal(t, first, o.must(o.enter(t.Context(), e)))
	e.OccurredAt = time.Unix(first.OccurredAt, 0)
	require.Equal(t, first, o.must(o.enter(t.Context(), e)))
	require.Len(t, o.history(), 1)
}

// A day is told by its midnight in the zone of whoever enters it; an earlier
// version told it in UTC.
func TestADayEnteredAgainFromAnotherTimeZoneChangesNothing(t *testing.T) {
	zones := []string{"Z", "+01:00", "-05:00", "+05:45", "+14:00", "-12:00"}
	for _, zone := range zones {
		o := newOffice(t)
		e := ReceiptEntry{Action: "enter", Rail: "transfer", Reference: "INV-7", Amount: "42", Date: "2026-11-20T00:00:00" + zone}
		first, err := o.Enter(t.Context(), e)
		require.NoError(t, err)
		for _, again := range append(zones, "") {
			e.Date = "2026-11-20T00:00:00" + again
			if again == "" {
				e.Date = ""
			}
			row, err := o.Enter(t.Context(), e)
			require.NoError(t, err, "%s after %s", again, zone)
			require.Equal(t, first, row)
		}
		require.Len(t, o.history(), 1)
		for _, other := range []string{"2026-11-19T00:00:00", "2026-11-21T00:00:00", "2026-11-20T00:00:01"} {
			e.Date = other + zone
			_, err := o.Enter(t.Context(), e)
			requireRefusal(t, err, Conflict, "entered already, with 42.00 USD")
		}

		e.Action, e.Reason = "correct", "booked in Paris"
		for _, right := range []string{"2026-11-20T00:00:00+01:00", "2026-11-20T00:00:00Z"} {
			e.Date = right
			row, err := o.Enter(t.Context(), e)
			require.NoError(t, err)
			at, err := time.Parse(time.RFC3339, right)
			require.NoError(t, err)
			require.Equal(t, moment(at.Unix()), row.OccurredAt, "a correction is exact")
		}
	}
}

func TestADayThatWasEnteredSurvivesWhatHappensToItsReceipt(t *testing.T) {
	inEachOffice(t, func(t *testing.T, o *office) {
		day := func() string {
			account := o.account("transfer")
			row, found, err := o.book.Receipt(t.Context(), account.Offer, account.ID, "INV-7")
			require.NoError(t, err)
			require.True(t, found)
			return manual.Day(row)
		}
		e := ReceiptEntry{Action: "enter", Rail: "transfer", Reference: "INV-7", Amount: "42", Date: "2026-11-20T00:00:00+01:00"}
		for _, next := range []struct {
			action, amount, date, want string
		}{
			{"enter", "42", "2026-11-20T00:00:00+01:00", "2026-11-20"}, {"correct", "43", "", "2026-11-20"}, {"refund", "10", "2026-11-21T00:00:00+01:00", "2026-11-20"},
			{"reverse", "", "", "2026-11-20"}, {"restore", "", "", "2026-11-20"}, {"correct", "", "2026-11-19T00:00:00+01:00", "2026-11-19"},
			{"correct", "", "2026-11-18T23:00:00Z", ""}, {"correct", "", "2026-11-19T00:00:00+01:00", "2026-11-19"}, {"correct", "", "2026-11-19", "2026-11-19"},
		} {
			e.Action, e.Amount, e.Date, e.Reason = next.action, json.Number(next.amount), next.date, "statement"
			_, err := o.Enter(t.Context(), e)
			require.NoError(t, err, next)
			require.Equal(t, next.want, day(), next)
		}
	})
}

func TestEnteringOtherFactsUnderAReferenceIsRefused(t *testing.T) {
	o := newOffice(t)
	first := o.must(o.enter(t.Context(), inv7(4200, "")))
	other := inv7(4200, "")
	other.OccurredAt = time.Unix(first.OccurredAt-86_400, 0)
	for _, e := range []manual.Entry{inv7(4300, ""), other} {
		_, err := o.enter(t.Context(), e)
		requireRefusal(t, err, Conflict, "entered already, with 42.00 USD")
		requireRefusal(t, err, Conflict, "correct it")
	}
	require.Equal(t, int64(4200), o.received())
}

func TestAnEntryNeedsAnAmountAndAKnownRail(t *testing.T) {
	o := newOffice(t)
	_, err := o.enter(t.Context(), inv7(0, ""))
	requireRefusal(t, err, Invalid, "amount is missing")
	_, err = o.enter(t.Context(), manual.Entry{Rail: "cash", Reference: "1", Amount: 4200})
	requireRefusal(t, err, Unknown, "there are: card, usdc, transfer, pack")
	_, err = o.reverse(t.Context(), manual.Entry{Rail: "cash", Reference: "1", Reason: "x"})
	requireRefusal(t, err, Unknown, "there are: card, usdc, transfer, pack")
	_, err = o.enter(t.Context(), manual.Entry{Rail: "transfer", Reference: "a\nb", Amount: 4200})
	requireRefusal(t, err, Invalid, "cannot be printed")
	require.Empty(t, o.history())
}

func TestBetterEvidenceIsNeitherEnteredNorCorrected(t *testing.T) {
	o := newOffice(t)
	o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed)
	o.sees("pack", "sale-1", ledger.LevelProvider, ledger.StatusConfirmed)
	o.sees("usdc", "eip155:8453:0x1:0", ledger.LevelChain, ledger.StatusConfirmed)
	before := o.history()
	for _, c := range []struct{ rail, reference, enter, correct string }{
		{"card", "pi_1", `evidence "signed"`, "refund it at the provider"},
		{"pack", "sale-1", `evidence "provider"`, "refund it at the provider"},
		{"usdc", "eip155:8453:0x1:0", "read from its chain", "decides"},
	} {
		e := manual.Entry{Rail: c.rail, Reference: c.reference, Amount: 4200, Reason: "x"}
		_, err := o.enter(t.Context(), e)
		requireRefusal(t, err, Conflict, c.enter)
		_, err = o.correct(t.Context(), e)
		requireRefusal(t, err, Conflict, c.correct)
	}
	require.Equal(t, before, o.history())
}

// What a provider tells of counts under the id that it has there, beside an entry
// of the same money under another.
func TestAnEntryOfWhatAProviderTellsOfIsWarnedOf(t *testing.T) {
	enter := func(t *testing.T, o *office, rail, reference string) Receipt {
		row, err := o.Enter(t.Context(), ReceiptEntry{Action: "enter", Rail: rail, Reference: reference, Amount: "42", Date: "2026-11-20T10:00:00Z"})
		require.NoError(t, err)
		return row
	}
	for source, warned := range map[string]bool{"webhook": true, "provider": true, "": false} {
		for _, rail := range []string{"card", "pack", "transfer"} {
			t.Run(source+" "+rail, func(t *testing.T) {
				o := newOffice(t)
				if source != "" && rail != "transfer" {
					o.health = observe.Health{Rail: rail, Source: source}
				} else {
					o.health = observe.Health{Rail: "transfer", Source: "operator"}
				}
				for range 2 {
					row := enter(t, o, rail, "INV-9")
					if !warned || rail == "transfer" {
						require.Empty(t, row.Said)
						continue
					}
					require.Len(t, row.Said, 1)
					require.Contains(t, row.Said[0], "it counts twice")
				}
			})
		}
	}
}

// What a checkout in test mode takes is entered as it is told of: in no sum, and said so.
func TestAnEntryOfATestPaymentSaysThatItCountsInNoSum(t *testing.T) {
	const said = "this is a test payment, and counts in no sum"
	for name, test := range map[string]bool{"test": true, "live": false} {
		o := newOffice(t)
		trial := ledger.Account{Offer: testOffer, ID: "stripe/plink_" + name, Rail: "card", Testnet: test}
		require.NoError(t, o.book.Register(t.Context(), trial))
		o.Accounts[0] = trial
		for _, entry := range []ReceiptEntry{
			{Action: "enter", Rail: "card", Reference: "pi_7", Amount: "42"},
			{Action: "correct", Rail: "card", Reference: "pi_7", Amount: "43", Reason: "x"},
			{Action: "refund", Rail: "card", Reference: "pi_7", Amount: "10", Reason: "x"},
			{Action: "restore", Rail: "card", Reference: "pi_7", Reason: "x"},
			{Action: "reverse", Rail: "card", Reference: "pi_7", Reason: "x"},
		} {
			row, err := o.Enter(t.Context(), entry)
			require.NoError(t, err, entry.Action)
			require.Equal(t, test, slices.Contains(row.Said, said), "%s %s", name, entry.Action)
		}
	}
}
