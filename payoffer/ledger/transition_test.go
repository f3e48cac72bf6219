package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHistoryTellsWhatHappenedToReceiptsOfOneOffer(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		require.NoError(t, l.Register(t.Context(), Account{Offer: "other", ID: "plink_2", Rail: "card"}))
		first := mustRecord(t, l, cardObservation("pi_1", StatusSeen))
		second := mustRecord(t, l, cardObservation("pi_2", StatusConfirmed))
		foreign := cardObservation("pi_3", StatusConfirmed)
		foreign.Offer, foreign.Account = "other", "plink_2"
		mustRecord(t, l, foreign)
		last := mustRecord(t, l, cardObservation("pi_4", StatusConfirmed))
		again := cardObservation("pi_1", StatusConfirmed)
		again.Note = "a word"
		mustRecord(t, l, again)

		lines := func(from, to int64) (lines []string) {
			history := must(l.History(t.Context(), testOffer, from, to))(t)
			for _, tr := range history {
				lines = append(lines, fmt.Sprintf("%s %d %s %s", tr.ExternalID, tr.Version, tr.To, tr.Note))
			}
			return lines
		}
		require.Equal(t, []string{"pi_1 1 seen ", "pi_1 2 confirmed a word", "pi_2 1 confirmed "}, lines(first.ID, second.ID))
		require.Equal(t, []string{"pi_2 1 confirmed ", "pi_4 1 confirmed "}, lines(second.ID, last.ID))
	})
}

// The address of a receipt's page is made from its name.
func TestATransitionNamesThePaymentAsItsReceiptDoes(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		authorized := chainObservation("0xa", StatusConfirmed)
		authorized.Nonce = "0x" + strings.Repeat("0a", 32)
		for _, s := range []Observation{authorized, cardObservation("pi_1", StatusConfirmed)} {
			want := mustRecord(t, l, s)
			history := must(l.History(t.Context(), testOffer, want.ID, want.ID))(t)
			tr := history[0]
			require.Equal(t, want.Name(), Receipt{ExternalID: tr.ExternalID, Payer: tr.Payer, Nonce: tr.Nonce}.Name())
		}
	})
}

func TestATransitionKeepsWhatTheAmountWasWorthThen(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		entered := cardObservation("INV-7", StatusConfirmed)
		entered.EvidenceLevel = LevelManual
		corrected := entered
		corrected.Revision, corrected.Amount, corrected.USDCents = 1, 4_000, ptr(int64(4_000))
		mustRecord(t, l, entered)
		mustRecord(t, l, corrected)
		history := must(l.Transitions(t.Context(), testOffer, 0, 10))(t)
		require.Len(t, history, 2)
		require.Equal(t, ptr(int64(4_200)), history[0].USDCents)
		require.Equal(t, ptr(int64(4_000)), history[1].USDCents)
	})
}

// TestAValueThatBecomesKnownIsToldToReaders: they would take it for unknown
// for good.
func TestAValueThatBecomesKnownIsToldToReaders(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		paid := chainObservation("0xa", StatusConfirmed)
		paid.USDCents = nil
		mustRecord(t, l, paid)
		paid.USDCents = ptr(int64(4_200))
		mustRecord(t, l, paid)
		mustRecord(t, l, paid)
		history := must(l.Transitions(t.Context(), testOffer, 0, 10))(t)
		require.Len(t, history, 2)
		require.Nil(t, history[0].USDCents)
		require.Equal(t, ptr(int64(4_200)), history[1].USDCents)
		require.Equal(t, StatusConfirmed, history[1].To)
		requireConsistent(t, l)
	})
}
