package accounting

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Only the seller can take back an entry of the seller's.
func TestReversedEntryIsVoided(t *testing.T) {
	for _, c := range []struct {
		level          EvidenceLevel
		cause          string
		headline, word string
		disputed       bool
	}{
		{LevelManual, "voided_by_operator", "$42 voided", "voided", false},
		{LevelManual, "entered", "$42 voided", "voided", false},
		{LevelManual, "provider", "$42 voided", "voided", false},
		{LevelSigned, "voided_by_operator", "$42 voided", "reversed", false},
		{LevelSigned, "webhook", "$42 disputed", "reversed", true},
		{LevelProvider, "provider", "$42 disputed", "reversed", true},
	} {
		facts := func(s Status) Facts {
			return Facts{Classification: Classification{Status: s, EvidenceLevel: c.level}, Asset: "USD", Amount: 42_00}
		}
		change := Change{Before: facts(StatusConfirmed), After: facts(StatusReversed), Cause: c.cause, ReturnKind: ReturnReversal}
		require.Equal(t, c.headline, change.Headline())
		require.Equal(t, c.disputed, change.Disputed())
		require.Equal(t, c.word, change.After.Word())
		require.Equal(t, StatusReversed, change.After.Status, "the published state")
		require.Equal(t, "confirmed", change.Before.Word())
	}
	require.Equal(t, "seen", Classification{Status: StatusSeen, EvidenceLevel: LevelManual}.Word())
}
