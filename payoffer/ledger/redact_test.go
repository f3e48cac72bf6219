package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// everyText reads every text of the database, table by table.
func everyText(t *testing.T, l *Ledger) string {
	t.Helper()
	var all strings.Builder
	for _, table := range tables {
		rows := must(l.db.read.QueryContext(t.Context(), "SELECT * FROM "+table))(t)
		columns := must(rows.Columns())(t)
		for rows.Next() {
			values := make([]any, len(columns))
			for n := range values {
				values[n] = new(any)
			}
			require.NoError(t, rows.Scan(values...))
			for _, value := range values {
				switch v := (*value.(*any)).(type) {
				case []byte:
					fmt.Fprintln(&all, string(v))
				default:
					fmt.Fprintln(&all, v)
				}
			}
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
	}
	return all.String()
}

// cardOf is a card payment on some evidence.
func cardOf(id string, level EvidenceLevel, state Status) Observation {
	s := cardObservation(id, state)
	s.EvidenceLevel = level
	return s
}

func TestARedactedReferenceIsGoneAndEveryFactStays(t *testing.T) {
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

		told := must(l.Feed(t.Context(), testOffer, seen, 10))(t)
		require.Len(t, told, 2)
		require.Equal(t, CauseRedacted, told[0].Cause)
		require.Equal(t, "redacted-1", told[0].ExternalID)
		require.Equal(t, before.Version+1, told[0].Version)
		require.Equal(t, StatusConfirmed, told[0].From)
		require.Equal(t, StatusConfirmed, told[0].To)
		require.Equal(t, before.Amount, told[0].Amount)
		require.Equal(t, int64(5), told[0].Refunded)
		require.NotZero(t, told[0].Tag)
		history := must(l.History(t.Context(), testOffer, before.ID, before.ID))(t)
		require.Empty(t, history[0].Note, "it repeated the reference")

		refund.ExternalID, refund.Returns[0].Gone, refund.Returns[0].Rank = "redacted-1", false, 1
		require.Zero(t, mustRecord(t, l, refund).Refunded, "its returns go with it")
	})
}

func TestWhatASourceNamedIsNotRedacted(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		mustRecord(t, l, cardOf("pi_1", LevelSigned, StatusConfirmed))
		mustRecord(t, l, cardOf("pi_2", LevelProvider, StatusConfirmed))
		mustRecord(t, l, chainObservation("0xa", StatusConfirmed))
		l.order(t.Context())
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
