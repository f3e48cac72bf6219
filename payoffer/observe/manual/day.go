package manual

import (
	"encoding/json"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// How far before and after midnight in UTC a day begins somewhere.
const (
	earliest = -14 * time.Hour
	latest   = 12 * time.Hour
)

// Day is the day that an entry gives in place of a moment, as in "2026-11-20": its
// time is midnight where it was written. It is empty for a moment or no time.
func (e Entry) Day() string {
	if hour, minute, second := e.OccurredAt.Clock(); e.OccurredAt.IsZero() || hour+minute+second > 0 {
		return ""
	}
	return e.OccurredAt.Format(time.DateOnly)
}

// Day is the day that the operator gave for a payment, wherever it began; empty for
// a moment. It stands only beside the time that was entered with it.
func Day(r ledger.Receipt) string {
	var entered struct{ Day string }
	if r.EvidenceLevel != ledger.LevelManual || json.Unmarshal(r.Evidence, &entered) != nil {
		return ""
	}
	midnight, err := time.Parse(time.DateOnly, entered.Day)
	begun := time.Unix(r.OccurredAt, 0).Sub(midnight)
	if err != nil || begun < earliest || begun > latest {
		return ""
	}
	return entered.Day
}
