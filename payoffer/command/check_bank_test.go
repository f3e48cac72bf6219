package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// offering is an offer that takes bank transfers to an account; to none where it is empty.
func offering(t *testing.T, bank offer.Bank) *offer.Offer {
	t.Helper()
	card, err := offer.NewCard("https://checkout.example/pay", nil, 42_00)
	require.NoError(t, err)
	transfer := must(offer.NewTransfer("transfer", "pay@example.org", "Example 42", "Example Org", 42_00))(t)
	if bank != (offer.Bank{}) {
		require.NoError(t, transfer.Publish(bank))
	}
	o, err := offer.New(offer.Terms{ID: "one", Name: "Example", Operator: "Example Org", BaseURL: "http://localhost:8402", Amount: 42_00}, card, transfer)
	require.NoError(t, err)
	return o
}

// The operator reads what payers will read, before anybody sends money elsewhere.
func TestCheckPrintsTheBankAccountThatPayersSee(t *testing.T) {
	const mail = "mailto:pay@example.org?subject=42"
	for name, c := range map[string]struct {
		bank offer.Bank
		want string // of the account
	}{
		"told by e-mail": {offer.Bank{}, ""},
		"an IBAN": {
			offer.Bank{AccountHolderName: "Example Org Ltd", IBAN: "DE75512108001245126199"},
			"  bank transfers go to Example Org Ltd: IBAN DE75512108001245126199; payers see 42 USD, no amount in euros, and the reference \"Example 42\"\n",
		},
		"a price in euros": {
			offer.Bank{AccountHolderName: "Example Org Ltd", IBAN: "DE75512108001245126199", BIC: "SOGEDEFF", AmountEUR: 39_00},
			"  bank transfers go to Example Org Ltd: IBAN DE75512108001245126199, BIC SOGEDEFF; payers see 39.00 EUR and the reference \"Example 42\"\n",
		},
		"the United States": {
			offer.Bank{AccountHolderName: "Example Inc", RoutingNumber: "021000021", AccountNumber: "1234567"},
			"  bank transfers go to Example Inc: routing number 021000021, account number 1234567; payers see 42 USD, no amount in euros, and the reference \"Example 42\"\n",
		},
	} {
		o := offering(t, c.bank)
		var checked strings.Builder
		printOffer(&checked, o)
		require.Contains(t, checked.String(), mail, name)
		if c.want == "" {
			require.NotContains(t, checked.String(), "bank transfers go to", name)
			continue
		}
		require.Contains(t, checked.String(), c.want, name)
	}
}
