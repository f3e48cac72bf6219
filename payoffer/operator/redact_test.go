package operator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
)

func TestAPublishedReferenceIsRedacted(t *testing.T) {
	onEachLedger(t, func(t *testing.T, o *fixture) {
		e := manual.Entry{Rail: "transfer", Reference: "Jane Doe", Amount: "42", Reason: "statement, jane doe"}
		entered := o.must("enter", e)
		e.Amount, e.Reason = "10", "half"
		o.must("refund", e)
		e.Amount, e.Reason = "", "a name"
		row := o.must("redact", e)
		require.Regexp(t, `^redacted-[a-z2-7]{16}$`, row.ID)
		require.Equal(t, entered.Number, row.Number)
		require.Equal(t, entered.OccurredAt, row.OccurredAt)
		require.Len(t, row.Hints, 2)
		require.Equal(t, []string{"confirmed entered: ", "confirmed refunded_by_operator: ", "confirmed redacted: a name"}, o.history(), "reasons could repeat it")
		require.Equal(t, int64(3200), o.received())

		o.refuses("redact", e, Unknown, "no receipt of the rail")
		e.Reference, e.Reason = row.ID, "typo"
		require.Equal(t, "0", o.must("restore", e).RefundedAtomic, "its refunds have the new reference")
	})
}

func TestOnlyWhatTheOperatorNamedIsRedacted(t *testing.T) {
	for name, c := range map[string]struct {
		rail   string
		level  ledger.EvidenceLevel
		source string
		want   string
	}{
		"a card payment":                   {"card", ledger.LevelSigned, "webhook", "the id that its source assigned"},
		"a sale that was read":             {"pack", ledger.LevelProvider, "provider", "the id that its source assigned"},
		"a transfer on a chain":            {"usdc", ledger.LevelChain, "chain", "the id that its source assigned"},
		"an entry where cards are told of": {"card", ledger.LevelManual, "webhook", "could be counted twice"},
		"an entry where cards are read":    {"card", ledger.LevelManual, "provider", "could be counted twice"},
		"an entry where nobody tells":      {"card", ledger.LevelManual, "", ""},
		"an entry of the operator alone":   {"transfer", ledger.LevelManual, "operator", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := newFixture(t)
			o.sees(c.rail, "id", c.level, ledger.StatusSeen)
			if c.source != "" {
				o.health = observe.Health{Rail: c.rail, Source: c.source}
			}
			row, err := o.do("redact", manual.Entry{Rail: c.rail, Reference: "id", Reason: "x"})
			if c.want != "" {
				requireRefusal(t, err, Conflict, c.want)
				return
			}
			require.NoError(t, err)
			require.NotEqual(t, "id", row.ID)
		})
	}
}
