package operator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

func TestAReferenceThatNamesSomebodyIsNotEntered(t *testing.T) {
	o := newOffice(t)
	for reference, kind := range map[string]string{
		"jane@example.org": "an e-mail address", "DE89 3704 0044 0532 0130 00": "an IBAN", "4242 4242 4242 4242": "a card number",
	} {
		_, err := o.Enter(t.Context(), ReceiptEntry{Action: "enter", Rail: "transfer", Reference: reference, Amount: "42"})
		requireRefusal(t, err, Invalid, "looks like "+kind)
		requireRefusal(t, err, Invalid, "use an invoice number")
	}
	require.Empty(t, o.history())
}

func TestAPublishedReferenceIsRedacted(t *testing.T) {
	inEachOffice(t, func(t *testing.T, o *office) {
		const name = "Jane Doe"
		e := inv(name)
		e.Amount, e.Reason = 4200, "statement, jane doe"
		entered := o.must(o.enter(t.Context(), e))
		_, err := o.Enter(t.Context(), ReceiptEntry{Action: "refund", Rail: "transfer", Reference: name, Amount: "10", Reason: "half"})
		require.NoError(t, err)
		redact := ReceiptEntry{Action: "redact", Rail: "transfer", Reference: name, Reason: "a name"}

		row, err := o.Enter(t.Context(), redact)
		require.NoError(t, err)
		require.Regexp(t, `^redacted-[a-z2-7]{16}$`, row.Reference)
		require.Equal(t, entered.ID, row.Number)
		require.Equal(t, "32", row.Left)
		require.Equal(t, entered.OccurredAt, o.unix)
		require.Contains(t, row.Said[0], "backups")
		require.Contains(t, row.Said[1], "entered under that again, it would be counted twice")
		require.Len(t, row.Said, 2)
		require.Equal(t, "statement, "+row.Reference, row.History[0].Reason, "the reasons as they read now")
		require.Equal(t, "redacted", row.History[2].Cause)
		require.Equal(t, int64(3200), o.received())

		_, err = o.Enter(t.Context(), redact)
		requireRefusal(t, err, Unknown, "no receipt of the rail")
		back, err := o.Enter(t.Context(), ReceiptEntry{Action: "restore", Rail: "transfer", Reference: row.Reference, Reason: "a slip"})
		require.NoError(t, err)
		require.Equal(t, "42", back.Left, "it is kept on under its new name")
	})
}

func TestOnlyWhatTheOperatorNamedIsRedacted(t *testing.T) {
	for name, c := range map[string]struct {
		rail   string
		level  ledger.EvidenceLevel
		source string
		want   string
	}{
		"a card payment":                   {"card", ledger.LevelSigned, "webhook", "the name that its own source gave it"},
		"a sale that was read":             {"pack", ledger.LevelProvider, "provider", "the name that its own source gave it"},
		"a transfer on a chain":            {"usdc", ledger.LevelChain, "chain", "the name that its own source gave it"},
		"an entry where cards are told of": {"card", ledger.LevelManual, "webhook", "could come back under its own"},
		"an entry where cards are read":    {"card", ledger.LevelManual, "provider", "could come back under its own"},
		"an entry where nobody tells":      {"card", ledger.LevelManual, "", ""},
		"an entry of the operator alone":   {"transfer", ledger.LevelManual, "operator", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			o.sees(c.rail, "id", c.level, ledger.StatusSeen)
			if c.source != "" {
				o.health = observe.Health{Rail: c.rail, Source: c.source}
			}
			row, err := o.Enter(t.Context(), ReceiptEntry{Action: "redact", Rail: c.rail, Reference: "id", Reason: "x"})
			if c.want != "" {
				requireRefusal(t, err, Conflict, c.want)
				return
			}
			require.NoError(t, err)
			require.NotEqual(t, "id", row.Reference)
		})
	}
}

// A payment would be counted twice if it came back under its own id.
func TestWhatAProviderMayTellOfKeepsItsName(t *testing.T) {
	for _, source := range []string{"webhook", "provider"} {
		t.Run(source, func(t *testing.T) {
			o := newOffice(t)
			e := ReceiptEntry{Action: "enter", Rail: "pack", Reference: "sale", Amount: "42"}
			_, err := o.Enter(t.Context(), e)
			require.NoError(t, err)
			o.health = observe.Health{Rail: "pack", Source: source}
			e.Action, e.Amount, e.Reason = "redact", "", "x"
			_, err = o.Enter(t.Context(), e)
			requireRefusal(t, err, Conflict, "could come back under its own, and be counted twice")

			o.sees("pack", "sale", ledger.LevelProvider, ledger.StatusConfirmed)
			require.Equal(t, int64(4200), o.received())
		})
	}
}
