package operator

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

func TestTheOperatorStatesAValueThatNoSourceKnows(t *testing.T) {
	inEachOffice(t, func(t *testing.T, o *office) {
		_, err := o.book.Record(t.Context(), nil, ledger.Sighting{
			Offer: testOffer, Account: o.account("card").ID, Rail: "card", ExternalID: "pi_yen", Asset: "JPY", Amount: 6300,
			State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelSigned, OccurredAt: o.unix, Cause: "webhook",
		})
		require.NoError(t, err)
		state := func(reference, usd string) (Receipt, error) {
			return o.Enter(t.Context(), ReceiptEntry{Action: "value", Rail: "card", Reference: reference, Amount: json.Number(usd), Reason: "rate of the bank"})
		}
		row, err := state("pi_yen", "42")
		require.NoError(t, err)
		require.Equal(t, "42", row.AmountUSD.String())
		require.Equal(t, "stated", row.ValueBasis)
		require.Equal(t, "6300", row.Paid)
		require.Equal(t, "JPY", row.Unit)
		again, err := state("pi_yen", "42")
		require.NoError(t, err)
		require.Equal(t, row.Version, again.Version, "the same again changes nothing")
		row, err = state("pi_yen", "41")
		require.NoError(t, err)
		require.Equal(t, "41", row.AmountUSD.String(), "the latest holds, also within one second")
		page, err := o.Receipts(t.Context(), 0, 1)
		require.NoError(t, err)
		require.Equal(t, []string{"", "42", "41"}, values(page.Receipts[0]))

		o.sees("card", "pi_usd", ledger.LevelSigned, ledger.StatusConfirmed)
		_, err = state("pi_usd", "41")
		requireRefusal(t, err, Conflict, "is known, 42 US dollars")
		_, err = state("pi_yen", "")
		requireRefusal(t, err, Invalid, "value is missing")
		_, err = state("pi_none", "1")
		requireRefusal(t, err, Unknown, "no receipt")
	})
}

// values are the values of a receipt over its history.
func values(r Receipt) (all []string) {
	for _, change := range r.History {
		if change.AmountUSD == nil {
			all = append(all, "")
		} else {
			all = append(all, change.AmountUSD.String())
		}
	}
	return all
}
