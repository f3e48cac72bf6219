package offer

import (
	"slices"
	"strings"
)

// cardMethods are the seven methods of the hosted checkout (specification
// section 1.7).
var cardMethods = []string{"card", "us_bank_account", "cashapp", "link", "klarna", "afterpay_clearpay", "affirm"}

// RailCard is the name of the card rail, which every offer has.
const RailCard = "card"

// SchemeCard identifies the card checkout (specification section 1.5).
const SchemeCard = "stripe"

// Card is the hosted card checkout.
type Card struct {
	URL            string   // the address of the checkout
	PaymentMethods []string // what the checkout takes
	TestMode       bool     // the checkout takes test payments, which are worth nothing
	PaymentLink    string   // the processor's id of the checkout, or empty
	amount         USD
}

// NewCard makes the card rail. No methods means all that the checkout has.
func NewCard(checkout string, methods []string, amount USD) (*Card, error) {
	u, err := ParseURL(checkout)
	if err != nil {
		return nil, err
	}
	if len(methods) == 0 {
		methods = cardMethods
	}
	return &Card{URL: u.String(), PaymentMethods: slices.Clone(methods), amount: amount}, nil
}

// Name is "card".
func (c *Card) Name() string { return RailCard }

// Test reports whether the checkout takes test payments.
func (c *Card) Test() bool { return c.TestMode }

// Account is "stripe/<payment link>", empty without one.
func (c *Card) Account() string {
	if c.PaymentLink == "" {
		return ""
	}
	return "stripe/" + c.PaymentLink
}

// Face says that the checkout takes cards and what else it has.
func (c *Card) Face() Face {
	return Face{
		Name: Phrase{Key: "rail.card.name"}, Fee: Phrase{Key: "rail.card.fee"}, Time: Phrase{Key: "rail.card.time"},
		Act: Phrase{Key: "rail.card.act", With: With{"amount": c.amount}},
	}
}

// TransactionURL is empty: only chains are public.
func (*Card) TransactionURL(string) string { return "" }

// Methods is the checkout.
func (c *Card) Methods(_ *Offer, _ Live) []Method {
	return []Method{{
		Rail: RailCard, Scheme: SchemeCard, Title: c.amount.String() + " USD by card or wallet", URL: c.URL,
		AmountUSD: c.amount, Network: "fiat", Asset: "USD", Available: true,
		Facts: []Fact{
			{Label: "amount", Value: dollars(c.amount)},
			{Label: "checkout", Value: Literal(Host(c.URL))},
			{Label: "accepts", Value: Literal(strings.ReplaceAll(strings.Join(c.PaymentMethods, ", "), "_", " "))},
		},
	}}
}

// Fallback is the card checkout as the agent card and every 402 carry it
// (specification section 2.2).
type Fallback struct {
	Scheme    string   `json:"scheme"`
	Network   string   `json:"network"`
	AmountUSD USD      `json:"amountUsd"`
	Asset     string   `json:"asset"`
	URL       string   `json:"url" jsonschema:"The card checkout."`
	Methods   []string `json:"methods"`
}

// Fallback is the card checkout for a client that cannot pay by x402.
func (c *Card) Fallback() Fallback {
	return Fallback{Scheme: SchemeCard, Network: "fiat", AmountUSD: c.amount, Asset: "USD", URL: c.URL, Methods: c.PaymentMethods}
}
