package crash

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// everything is more than there is of anything.
const everything = 1_000_000

// tally is what the chain and the ledger say of a shop's payments.
type tally struct {
	// lost counts transfers without a row, and payments that were answered 200 without a transfer.
	lost int
	// doubled counts transfers and rows beyond the one of each payment, and announcements beyond the first.
	doubled int
}

// requireSound compares the chain with what the killed server left in its ledger, and logs the counts.
func (s *shop) requireSound(t *testing.T) {
	t.Helper()
	found := s.audit(t, ledger.NewSQLite(s.ledger, time.Now))
	t.Logf("kills=%d payments=%d restarts=%d lost=%d doubled=%d", s.deaths, len(s.payments), s.Starts()-1, found.lost, found.doubled)
	require.Equal(t, tally{}, found)
}

// audit compares the chain with a ledger, which it opens.
func (s *shop) audit(t *testing.T, book *ledger.Ledger) tally {
	t.Helper()
	require.NoError(t, book.Open(t.Context()))
	defer func() { assert.NoError(t, book.Close()) }()
	found := s.compareTransfers(t, book)
	found.doubled += countRepeats(t, book)
	checkTotals(t, book)
	s.checkIntents(t, book)
	return found
}

// compareTransfers counts by authorization: one transfer, one row, one transition for each payment.
func (s *shop) compareTransfers(t *testing.T, book *ledger.Ledger) (found tally) {
	t.Helper()
	rows := map[string]int{}
	receipts, err := book.Receipts(t.Context(), offerID, 0, everything)
	require.NoError(t, err)
	for _, receipt := range receipts {
		assert.Contains(t, []ledger.Status{ledger.StatusSeen, ledger.StatusConfirmed}, receipt.Status)
		assert.EqualValues(t, price, receipt.Amount)
		rows[receipt.ExternalID]++
	}
	transfers := s.market.chain.TransfersTo(t, s.payee)
	for _, transfer := range transfers {
		id := fmt.Sprintf("eip155:%d:%s:%d", s.market.chain.ID, transfer.Tx.Hex(), transfer.Ordinal)
		if rows[id] == 0 {
			t.Errorf("transfer %s has no row", id)
			found.lost++
		}
		rows[id]--
	}
	for id, beyond := range rows {
		if beyond > 0 {
			t.Errorf("row %s is %d too many", id, beyond)
			found.doubled += beyond
		}
	}
	found.lost += max(0, len(s.payments)-len(transfers))
	found.doubled += max(0, len(transfers)-len(s.payments))
	assert.Zero(t, s.market.chain.BalanceOf(t, s.payee).Cmp(big.NewInt(int64(len(s.payments))*price)),
		"the payee has the price of each payment that was answered 200, and no more")
	return found
}

// countRepeats checks that each row's transitions follow each other, and counts those that announce the same again.
func countRepeats(t *testing.T, book *ledger.Ledger) (doubled int) {
	t.Helper()
	transitions, err := book.Transitions(t.Context(), offerID, 0, everything)
	require.NoError(t, err)
	last := map[string]ledger.Transition{}
	type event struct {
		id string
		to ledger.Status
	}
	seen := map[event]bool{}
	for _, transition := range transitions {
		before := last[transition.ExternalID]
		assert.Equal(t, before.Version+1, transition.Version, "%+v after %+v", transition, before)
		assert.Equal(t, before.To, transition.From, "%+v after %+v", transition, before)
		last[transition.ExternalID] = transition
		e := event{transition.ExternalID, transition.To}
		if seen[e] {
			t.Errorf("announced twice: %+v", e)
			doubled++
		}
		seen[e] = true
	}
	return doubled
}

// checkTotals compares the sums with what the rows add up to, both of one moment.
func checkTotals(t *testing.T, book *ledger.Ledger) {
	t.Helper()
	assert.NoError(t, book.Check(t.Context()))
	totals, err := book.Totals(t.Context(), offerID)
	require.NoError(t, err)
	for _, total := range totals {
		assert.NotContains(t, []ledger.Status{ledger.StatusSettling, ledger.StatusClaimed}, total.Status, "nothing is open and nothing only claimed")
	}
}

// checkIntents checks that the ledger knows each payment as settled, by the chain.
func (s *shop) checkIntents(t *testing.T, book *ledger.Ledger) {
	t.Helper()
	for _, p := range s.payments {
		intent, known, err := book.Intent(t.Context(), p.key())
		require.NoError(t, err)
		assert.True(t, known)
		assert.Equal(t, ledger.IntentSettled, intent.State, "%+v", intent)
		assert.Equal(t, ledger.EvidenceChain, intent.Evidence, "%+v", intent)
	}
}
