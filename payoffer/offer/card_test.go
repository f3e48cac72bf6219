package offer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// said joins a list of phrases, each by its key or its text.
func said(p Phrase) string {
	switch {
	case p.Key == "fact.list":
		return said(p.With["first"].(Phrase)) + ", " + said(p.With["rest"].(Phrase))
	case p.Key == "rail.card.more":
		return said(p.With["names"].(Phrase)) + "…"
	}
	return p.Key + p.Text
}

func TestTheCardIsNamedByTheMethodsOfItsCheckout(t *testing.T) {
	for want, methods := range map[string][]string{
		"rail.card.card":                                 nil,
		"rail.card.card, Klarna, Link…":                  {"link", "klarna", "affirm", "card"},
		"rail.card.card, Apple Pay, Google Pay":          {"google_pay", "card", "apple_pay"},
		"rail.card.card, PayPal, Sepa debit":             {"sepa_debit", "paypal", "card"},
		"Afterpay / Clearpay, rail.card.usBankAccount":   {"us_bank_account", "afterpay_clearpay"},
		"Cash App Pay, Affirm, rail.card.usBankAccount…": {"twint", "us_bank_account", "affirm", "cashapp"},
	} {
		card, err := NewCard("https://checkout.example/pay", methods, 42_00)
		require.NoError(t, err)
		require.Equal(t, want, said(card.Face().Name))
		require.Equal(t, "rail.card.way", said(card.Face().Way), "which of them was chosen is not known")
		if methods != nil {
			require.Equal(t, methods, card.PaymentMethods, "what programs read keeps its order")
		}
	}
}

// A name that the host does not prove would be a promise that nobody gave.
func TestTheProcessorIsNamedOnlyWhereTheHostProvesIt(t *testing.T) {
	for address, want := range map[string]string{
		"https://buy.stripe.com/abc":                 "Stripe (buy.stripe.com)",
		"https://checkout.stripe.com/c/pay":          "Stripe (checkout.stripe.com)",
		"https://pay.example.org/stripe.com":         "pay.example.org",
		"https://stripe.com.example.org/":            "stripe.com.example.org",
		"https://notstripe.com/":                     "notstripe.com",
		"https://buy.stripe.com.example/?stripe.com": "buy.stripe.com.example",
	} {
		card := must(NewCard(address, nil, 42_00))(t)
		shop := must(NewStorefront("shop", address, 42_00))(t)
		for _, face := range []Face{card.Face(), shop.Face()} {
			require.Equal(t, Phrase{Key: "rail.checkout", With: With{"host": want}}, face.Note)
		}
	}
}

func TestAnAddressSaysThatItsCheckoutIsForTests(t *testing.T) {
	for address, test := range map[string]bool{
		"https://buy.stripe.com/test_1":                            true,
		"https://Buy.Stripe.com/test_1?prefilled_email=a":          true,
		"https://checkout.stripe.com/c/pay/cs_test_1":              true,
		"https://www.sandbox.paypal.com/ncp/payment/1":             true,
		"https://sandbox.square.link/u/1":                          true,
		"https://buy.stripe.com./TEST_1":                           true,
		"https://pay.example.org/b/test_1":                         true,
		"https://buy.stripe.com/1":                                 false,
		"https://buy.stripe.com/latest_1":                          false,
		"https://checkout.stripe.com/c/pay/cs_live_1":              false,
		"https://shop.example.org/test_1":                          false,
		"https://notstripe.com/test_1":                             false,
		"https://buy.stripe.com/1?from=/test_1":                    false,
		"https://www.paypal.com/ncp/payment/1?next=sandbox.paypal": false,
	} {
		card := must(NewCard(address, nil, 42_00))(t)
		require.Equal(t, test, card.Test(), address)
	}
}
