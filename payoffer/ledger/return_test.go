package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

func TestRefundBeforePaymentCounts(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		refund := returned("pi_1", Return{ID: "re_1", Kind: ReturnRefund, Amount: 1_200, Gone: true, At: 5})
		other := cardObservation("pi_2", StatusConfirmed)
		receipts := must(l.Record(t.Context(), nil, refund, other))(t)
		require.Len(t, receipts, 1, "a refund makes no row")
		require.Equal(t, "pi_2", receipts[0].ExternalID)
		_, found := find(l.Receipt(t.Context(), testOffer, cardAccount, "pi_1"))(t)
		require.False(t, found)
		requireConsistent(t, l)

		paid := mustRecord(t, l, cardObservation("pi_1", StatusConfirmed))
		require.EqualValues(t, 1_200, paid.Refunded)
		require.EqualValues(t, 1_200, paid.RefundedCents)
		require.Equal(t, []string{"pi_2 1 >confirmed", "pi_1 1 >confirmed", "pi_1 2 confirmed>confirmed"}, statuses(t, l), "the payment comes before its refund")
		stored, found := find(l.Receipt(t.Context(), testOffer, cardAccount, "pi_1"))(t)
		require.True(t, found)
		require.Equal(t, paid, stored)
		_, found = find(l.Receipt(t.Context(), "other", cardAccount, "pi_1"))(t)
		require.False(t, found, "offers do not see each other's receipts")
		requireConsistent(t, l)
	})
}

func TestRefundsAreKeptPerAccount(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		refund := returned("same", Return{ID: "re_1", Kind: ReturnRefund, Amount: 4_200, Gone: true})
		must(l.Record(t.Context(), nil, refund))(t)
		elsewhere := cardObservation("same", StatusConfirmed)
		elsewhere.Account = testAccount
		require.Zero(t, mustRecord(t, l, elsewhere).Refunded)
		require.Equal(t, StatusRefunded, mustRecord(t, l, cardObservation("same", StatusConfirmed)).Status)
		requireConsistent(t, l)
	})
}

func TestRefundUpdatesTotals(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		mustRecord(t, l, cardObservation("pi_1", StatusConfirmed))
		re1 := Return{ID: "re_1", Kind: ReturnRefund, Amount: 1_200, Gone: true, At: 1}
		re2 := Return{ID: "re_2", Kind: ReturnRefund, Amount: 3_000, Gone: true, At: 1}
		failed := re2
		failed.Gone, failed.At = false, 2
		for _, step := range []struct {
			back   Return
			status Status
			gone   int64
		}{
			{re1, StatusConfirmed, 1_200}, {re2, StatusRefunded, 4_200}, {failed, StatusConfirmed, 1_200}, {re2, StatusConfirmed, 1_200},
		} {
			r := mustRecord(t, l, returned("pi_1", step.back))
			require.Equal(t, step.status, r.Status)
			require.Equal(t, step.gone, r.Refunded)
			requireConsistent(t, l)
		}
		require.Equal(t, []string{
			"pi_1 1 >confirmed", "pi_1 2 confirmed>confirmed", "pi_1 3 confirmed>refunded", "pi_1 4 refunded>confirmed",
		}, statuses(t, l))
		transitions := must(l.Transitions(t.Context(), testOffer, 0, 10))(t)
		require.EqualValues(t, 4_200, transitions[2].Refunded, "what it was then")
	})
}

// They are those of what else the account sells.
func TestUnmatchedRefundsExpire(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		record := func(s Observation) {
			must(l.Record(t.Context(), nil, s))(t)
		}
		count := func() (n int) {
			require.NoError(t, l.db.read.QueryRow(`SELECT count(*) FROM returns`).Scan(&n))
			return n
		}
		refund := Return{ID: "re_1", Kind: ReturnRefund, Amount: 4_200, Gone: true}
		for n := range unmetBatch + 5 {
			record(returned(fmt.Sprint("other_", n), refund))
		}
		record(returned("pi_1", refund))
		record(cardObservation("pi_1", StatusConfirmed))
		const day = 24 * 60 * 60
		clock.set(1_000 + unmetDays*day)
		record(returned("late", refund))
		require.Equal(t, unmetBatch+7, count(), "35 days are not over")
		clock.set(1_001 + unmetDays*day)
		record(returned("later", refund))
		require.Equal(t, 8, count(), "not all in one call")
		record(returned("later", refund))
		require.Equal(t, 3, count())
		record(cardObservation("other_1", StatusConfirmed))
		record(cardObservation("late", StatusConfirmed))
		for id, want := range map[string]Status{"pi_1": StatusRefunded, "late": StatusRefunded, "other_1": StatusConfirmed} {
			r, _ := find(l.Receipt(t.Context(), testOffer, cardAccount, id))(t)
			require.Equal(t, want, r.Status, id)
		}
		requireConsistent(t, l)
	})
}

func TestCorrectionsAreInHistory(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		entry := cardObservation("ref-1", StatusConfirmed)
		entry.EvidenceLevel, entry.Note = LevelManual, "statement of May"
		corrected := entry
		corrected.Amount, corrected.USDCents, corrected.Revision, corrected.Note = 2_400, ptr(int64(2_400)), 1, "transposed digits"
		dated := corrected
		dated.OccurredAt, dated.Revision, dated.Note = 800, 2, "wrong day"
		for _, s := range []Observation{entry, corrected, dated, corrected, entry} {
			mustRecord(t, l, s)
			requireConsistent(t, l)
		}
		r, _ := find(l.Receipt(t.Context(), testOffer, cardAccount, "ref-1"))(t)
		require.EqualValues(t, 2_400, r.Amount)
		require.EqualValues(t, 800, r.OccurredAt)
		require.EqualValues(t, 2, r.Revision)
		transitions := must(l.Transitions(t.Context(), testOffer, 0, 10))(t)
		var notes []string
		for _, tr := range transitions {
			notes = append(notes, fmt.Sprint(tr.Amount, " ", tr.Note))
		}
		require.Equal(t, []string{"4200 statement of May", "2400 transposed digits", "2400 wrong day"}, notes)
		facts := func(amount int64) accounting.Facts {
			return accounting.Facts{
				Classification: accounting.Classification{Status: StatusConfirmed, EvidenceLevel: LevelManual},
				Asset:          "USD", Amount: amount, USDCents: &amount, OccurredAt: 900,
			}
		}
		require.Equal(t, Transition{
			Seq: transitions[1].Seq, Tag: transitions[1].Tag, Offer: testOffer, Account: cardAccount, Rail: "card", ExternalID: "ref-1", Version: 2,
			From: StatusConfirmed, To: StatusConfirmed, Amount: 2_400, Cause: "webhook", Note: "transposed digits", At: 1_000,
			ReceiptID: r.ID, Asset: "USD", USDCents: ptr(int64(2_400)), EvidenceLevel: LevelManual, OccurredAt: 800,
			Before: facts(4_200), After: facts(2_400),
		}, transitions[1])
		require.Equal(t, "date from 1970-01-01T00:15:00Z to 1970-01-01T00:13:20Z", transitions[2].Change().Description())
	})
}

// What was paid is of none, though its
// return is reported with it.
func TestTransitionNamesItsRefund(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		paid := cardObservation("pi_1", StatusConfirmed)
		paid.Returns = []Return{{ID: "dp_1", Kind: ReturnReversal, Amount: 1_000, Gone: true, At: 950}}
		mustRecord(t, l, paid)
		pending := returned("pi_1", Return{ID: "re_1", Kind: ReturnRefund, Amount: 500, At: 960})
		pending.Note = "nothing moved"
		mustRecord(t, l, pending)
		mustRecord(t, l, returned("pi_1", Return{ID: "re_1", Kind: ReturnRefund, Amount: 500, Gone: true, At: 970}))
		transitions := must(l.Transitions(t.Context(), testOffer, 0, 10))(t)
		var listed []string
		for _, tr := range transitions {
			listed = append(listed, fmt.Sprint(tr.Refunded, " ", tr.ReturnID, " ", tr.ReturnKind, " ", tr.MovedAt))
		}
		require.Equal(t, []string{"0   0", "1000 dp_1 reversal 950", "1500 re_1 refund 970"}, listed)
	})
}

// Refunds and disputes can be known before their payment. Each stays a transition of its own, with its id and date.
func TestEarlyRefundsStaySeparateTransitions(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		for _, w := range []Return{
			{ID: "re_2", Kind: ReturnRefund, Amount: 700, Gone: true, At: 970},
			{ID: "ch_1", Kind: accounting.ReturnTotal, Amount: 1_200, Gone: true, At: 960}, // the sum of the refunds
			{ID: "dp_1", Kind: ReturnReversal, Amount: 300, Gone: true, At: 980},
			{ID: "re_1", Kind: ReturnRefund, Amount: 500, Gone: true, At: 960},
			{ID: "re_0", Kind: ReturnRefund, Amount: 900, At: 950}, // it failed
		} {
			must(l.Record(t.Context(), nil, returned("pi_1", w)))(t)
		}
		require.EqualValues(t, 1_500, mustRecord(t, l, cardObservation("pi_1", StatusConfirmed)).Refunded)
		requireConsistent(t, l)
		require.Equal(t, []string{"1: 0  0", "2: 500 re_1 960", "3: 1200 re_2 970", "4: 1500 dp_1 980"}, stepsOf(t, l))

		// Two refunds in one report stay apart, too.
		both := returned("pi_1", Return{ID: "re_4", Kind: ReturnRefund, Amount: 20, Gone: true, At: 991})
		both.Returns = append(both.Returns, Return{ID: "re_3", Kind: ReturnRefund, Amount: 10, Gone: true, At: 990})
		mustRecord(t, l, both)
		require.Equal(t, []string{"5: 1510 re_3 990", "6: 1530 re_4 991"}, stepsOf(t, l)[4:])
		requireConsistent(t, l)
	})
}

// stepsOf are the transitions as "version: refunded, id and date of the return".
func stepsOf(t *testing.T, l *Ledger) (all []string) {
	transitions := must(l.Transitions(t.Context(), testOffer, 0, 20))(t)
	for _, tr := range transitions {
		all = append(all, fmt.Sprint(tr.Version, ": ", tr.Refunded, " ", tr.ReturnID, " ", tr.MovedAt))
	}
	return all
}

// All reports of a refund can have its date (of Stripe they do). The failure moves money when it is recorded.
func TestFailedRefundHasOwnDate(t *testing.T) {
	onSQLite(t, func(t *testing.T, l *Ledger, _ *testClock) {
		refund := Return{ID: "re_1", Kind: ReturnRefund, Amount: 1_200, Gone: true, At: 950, Rank: 1}
		mustRecord(t, l, cardObservation("pi_1", StatusConfirmed))
		mustRecord(t, l, returned("pi_1", refund))
		refund.Gone, refund.Rank = false, 2
		mustRecord(t, l, returned("pi_1", refund))
		dispute := Return{ID: "dp_1", Kind: ReturnReversal, Gone: true, At: 960}
		mustRecord(t, l, returned("pi_1", dispute))
		dispute.Gone, dispute.At = false, 980 // the source says when it was won
		mustRecord(t, l, returned("pi_1", dispute))
		require.Equal(t, []string{"1: 0  0", "2: 1200 re_1 950", "3: 0 re_1 0", "4: 0 dp_1 960", "5: 0 dp_1 980"}, stepsOf(t, l))
	})
}

// everyText is dump as one text.
func everyText(t *testing.T, l *Ledger) string {
	t.Helper()
	return fmt.Sprint(dump(t, l))
}

// cardOf is a card payment on some evidence.
func cardOf(id string, level EvidenceLevel, state Status) Observation {
	s := cardObservation(id, state)
	s.EvidenceLevel = level
	return s
}

func TestRedactRemovesReference(t *testing.T) {
	const name = `jane"doe@example.org`
	eachLedger(t, func(t *testing.T, l *Ledger, clock *testClock) {
		manual := cardOf(name, LevelManual, StatusConfirmed)
		manual.Note = "statement of " + strings.ToUpper(name)
		sale := cardOf("sale "+name, LevelManual, StatusSeen)
		other := cardOf("INV-8", LevelManual, StatusConfirmed)
		for _, s := range []Observation{manual, sale, other} {
			mustRecord(t, l, s)
		}
		refund := manual
		refund.Addendum, refund.Returns, refund.Note = true, []Return{{ID: "r", Kind: ReturnRefund, Amount: 5, Gone: true, At: 1}}, "back to "+name
		before := mustRecord(t, l, refund)
		require.NoError(t, l.Enter(t.Context(), testOffer, cardAccount+" "+before.Name(), "of-the-payer"))
		require.NoError(t, l.Enter(t.Context(), testOffer, cardAccount+" r/INV-8", "of-another"))
		require.Contains(t, strings.ToLower(everyText(t, l)), "jane")
		clock.set(2_000)
		last := must(l.Transitions(t.Context(), testOffer, 0, 100))(t)
		seen := last[len(last)-1].Bookmark()
		totals := must(l.Totals(t.Context(), testOffer))(t)

		after := must(l.Redact(t.Context(), testOffer, cardAccount, name, "redacted-1", "the payer asked for it"))(t)
		want := before
		want.ExternalID, want.Version, want.UpdatedAt = "redacted-1", before.Version+1, 2_000
		require.Equal(t, want, after)
		stored, found := find(l.Receipt(t.Context(), testOffer, cardAccount, "redacted-1"))(t)
		require.True(t, found)
		require.Equal(t, after, stored)
		must(l.Redact(t.Context(), testOffer, cardAccount, "sale "+name, "redacted-2", "x"))(t)

		require.NotContains(t, strings.ToLower(everyText(t, l)), "jane")
		requireBrowsers(t, l, cardAccount+" "+before.Name())
		requireBrowsers(t, l, cardAccount+" r/INV-8", "of-another")
		sums := must(l.Totals(t.Context(), testOffer))(t)
		require.Equal(t, totals, sums)
		requireConsistent(t, l)

		listed := must(l.Feed(t.Context(), testOffer, seen, 10))(t)
		require.Len(t, listed, 2)
		require.Equal(t, CauseRedacted, listed[0].Cause)
		require.Equal(t, "redacted-1", listed[0].ExternalID)
		require.Equal(t, before.Version+1, listed[0].Version)
		require.Equal(t, StatusConfirmed, listed[0].From)
		require.Equal(t, StatusConfirmed, listed[0].To)
		require.Equal(t, before.Amount, listed[0].Amount)
		require.Equal(t, int64(5), listed[0].Refunded)
		require.NotZero(t, listed[0].Tag)
		history := must(l.History(t.Context(), testOffer, before.ID, before.ID))(t)
		require.Empty(t, history[0].Note, "it repeated the reference")

		refund.ExternalID, refund.Returns[0].Gone, refund.Returns[0].Rank = "redacted-1", false, 1
		require.Zero(t, mustRecord(t, l, refund).Refunded, "its returns go with it")
	})
}

func TestRedactRefusesSourceReference(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		mustRecord(t, l, cardOf("pi_1", LevelSigned, StatusConfirmed))
		mustRecord(t, l, cardOf("pi_2", LevelProvider, StatusConfirmed))
		mustRecord(t, l, chainObservation("0xa", StatusConfirmed))
		before := everyText(t, l)
		for _, id := range []string{"pi_1", "pi_2", "none", chainObservation("0xa", StatusConfirmed).ExternalID} {
			for _, account := range []string{cardAccount, testAccount} {
				_, err := l.Redact(t.Context(), testOffer, account, id, "redacted-1", "x")
				require.ErrorIs(t, err, ErrRedaction)
			}
		}
		require.Equal(t, before, everyText(t, l))
	})
}
