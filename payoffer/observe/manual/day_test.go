package manual

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

func TestADayIsKeptAsTheOperatorWroteIt(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for written, day := range map[string]string{
		"2026-11-20": "2026-11-20", "2026-11-20T00:00:00Z": "2026-11-20", "2026-11-20T00:00:00+14:00": "2026-11-20", "2026-11-20T00:00:00-12:00": "2026-11-20",
		"2026-11-20T00:00:01Z": "", "2026-11-20T02:00:00+02:00": "", "2026-11-19T23:00:00Z": "",
	} {
		at, err := ParseDate(written, time.FixedZone("Australia/Sydney", 11*3600))
		require.NoError(t, err)
		e := Entry{Rail: "transfer", Reference: "INV-7", Amount: 4200, OccurredAt: at}
		require.Equal(t, day, e.Day(), written)
		row, words := accounting.Merge(ledger.Receipt{}, nil, e.Entered(ledger.Receipt{}, now))
		require.Equal(t, day, Day(row), written)
		again, _ := accounting.Merge(row, words, e.Entered(ledger.Receipt{}, now.Add(time.Hour)))
		require.Equal(t, day, Day(again), "%s, said twice", written)

		corrected, _ := accounting.Merge(row, words, Entry{Reference: "INV-7", Amount: 4300}.Corrected(row, now))
		require.Equal(t, day, Day(corrected), "%s: another amount is of the same day", written)
		moved, _ := accounting.Merge(row, words, Entry{Reference: "INV-7", OccurredAt: at.Add(time.Minute)}.Corrected(row, now))
		require.Empty(t, Day(moved), "%s: a moment takes the place of the day", written)
		reversed, _ := accounting.Merge(row, words, Entry{Reference: "INV-7"}.Reversed(row, now))
		require.Equal(t, day, Day(reversed), written)
	}
	require.Empty(t, Entry{}.Day(), "no time is no day")
}

func TestADayStandsOnlyBesideItsOwnTime(t *testing.T) {
	midnight := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).Unix()
	for name, r := range map[string]ledger.Receipt{
		"an entry of before":   {EvidenceLevel: ledger.LevelManual, Evidence: json.RawMessage(`{"enteredAt":"2026-11-21T12:00:00Z"}`)},
		"no evidence":          {EvidenceLevel: ledger.LevelManual},
		"what is no day":       {EvidenceLevel: ledger.LevelManual, Evidence: json.RawMessage(`{"day":"redacted-20"}`)},
		"another kind of word": {EvidenceLevel: ledger.LevelSigned, Evidence: json.RawMessage(`{"day":"2026-11-20"}`)},
		"a later time":         {EvidenceLevel: ledger.LevelManual, Evidence: json.RawMessage(`{"day":"2026-11-19"}`)},
		"an earlier time":      {EvidenceLevel: ledger.LevelManual, Evidence: json.RawMessage(`{"day":"2026-11-21"}`)},
	} {
		r.OccurredAt = midnight
		require.Empty(t, Day(r), name)
	}
}
