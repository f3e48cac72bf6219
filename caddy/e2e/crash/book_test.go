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

// requireSound compares the chain with what the killed server left in its ledger.
func (s *shop) requireSound(t *testing.T) {
	t.Helper()
	t.Logf("kills=%d payments=%d restarts=%d", s.deaths, len(s.payments), s.Starts()-1)
	s.audit(t, ledger.NewSQLite(s.ledger, time.Now))
}

// audit compares the chain with a ledger, which it opens.
func (s *shop) audit(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	require.NoError(t, l.Open(t.Context()))
	defer func() { assert.NoError(t, l.Close()) }()
	s.compareTransfers(t, l)
	checkTransitions(t, l)
	checkTotals(t, l)
	s.checkIntents(t, l)
}

// compareTransfers requires one transfer and one row for each payment that was answered 200, and no others.
func (s *shop) compareTransfers(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	var rows, transfers []string
	receipts, err := l.Receipts(t.Context(), offerID, 0, everything)
	require.NoError(t, err)
	for _, receipt := range receipts {
		assert.Contains(t, []ledger.Status{ledger.StatusSeen, ledger.StatusConfirmed}, receipt.Status)
		assert.EqualValues(t, price, receipt.Amount)
		rows = append(rows, receipt.ExternalID)
	}
	for _, transfer := range s.market.chain.TransfersTo(t, s.payee) {
		transfers = append(transfers, fmt.Sprintf("eip155:%d:%s:%d", s.market.chain.ID, transfer.Tx.Hex(), transfer.Ordinal))
	}
	assert.ElementsMatch(t, transfers, rows)
	assert.Len(t, transfers, len(s.payments))
	assert.Zero(t, s.market.chain.BalanceOf(t, s.payee).Cmp(big.NewInt(int64(len(s.payments))*price)))
}

// checkTransitions requires that the transitions of each row follow each other, and that none is announced twice.
func checkTransitions(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	transitions, err := l.Transitions(t.Context(), offerID, 0, everything)
	require.NoError(t, err)
	last, seen := map[string]ledger.Transition{}, map[string]bool{}
	for _, transition := range transitions {
		before := last[transition.ExternalID]
		assert.Equal(t, before.Version+1, transition.Version, "%+v after %+v", transition, before)
		assert.Equal(t, before.To, transition.From, "%+v after %+v", transition, before)
		last[transition.ExternalID] = transition
		event := fmt.Sprint(transition.ExternalID, transition.To)
		assert.False(t, seen[event], "announced twice: %s", event)
		seen[event] = true
	}
}

// checkTotals compares the sums with what the rows add up to, both of one moment.
func checkTotals(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	assert.NoError(t, l.Check(t.Context()))
	totals, err := l.Totals(t.Context(), offerID)
	require.NoError(t, err)
	for _, total := range totals {
		assert.NotContains(t, []ledger.Status{ledger.StatusSettling, ledger.StatusClaimed}, total.Status, "nothing is open and nothing only claimed")
	}
}

// checkIntents checks that the ledger knows each payment as settled, by the chain.
func (s *shop) checkIntents(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	for _, p := range s.payments {
		intent, known, err := l.Intent(t.Context(), p.key())
		require.NoError(t, err)
		assert.True(t, known)
		assert.Equal(t, ledger.IntentSettled, intent.State, "%+v", intent)
		assert.Equal(t, ledger.EvidenceChain, intent.Evidence, "%+v", intent)
	}
}
