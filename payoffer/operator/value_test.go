package operator

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
)

func TestTheOperatorStatesAValueThatNoSourceKnows(t *testing.T) {
	onEachLedger(t, func(t *testing.T, o *fixture) {
		must(o.book.Record(t.Context(), nil, ledger.Observation{
			Offer: testOffer, Account: o.account("card").ID, Rail: "card", ExternalID: "pi_yen", Asset: "JPY", Amount: 6300,
			State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelSigned, OccurredAt: o.unix, Cause: "webhook",
		}))(t)
		state := func(reference string, usd json.Number) (Receipt, error) {
			return o.do("value", manual.Entry{Rail: "card", Reference: reference, Amount: usd, Reason: "rate of the bank"})
		}
		row := must(state("pi_yen", "42"))(t)
		require.Equal(t, "42 USD stated 6300 JPY", row.Value()+" "+row.ValueBasis+" "+row.Paid())
		again := must(state("pi_yen", "42"))(t)
		require.Equal(t, row.Version, again.Version, "the same again changes nothing")
		must(state("pi_yen", "41"))(t)
		page := must(o.Receipts(t.Context(), 0, 1))(t)
		var values []string
		for _, change := range page.Receipts[0].History {
			values = append(values, change.Value())
		}
		require.Equal(t, []string{"6300 JPY", "42 USD", "41 USD"}, values, "the latest holds, also within one second")

		o.sees("card", "pi_usd", ledger.LevelSigned, ledger.StatusConfirmed)
		requireRefusal(t, errorOf(state("pi_usd", "41")), Conflict, "is known: 42 US dollars")
		requireRefusal(t, errorOf(state("pi_yen", "")), Invalid, "value is missing")
		requireRefusal(t, errorOf(state("pi_none", "1")), Unknown, "no receipt")
	})
}
