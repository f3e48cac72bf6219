package offer

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// cardMethods are the methods of the hosted checkout (docs/developing/decisions.md).
var cardMethods = []string{"card", "us_bank_account", "cashapp", "link", "klarna", "afterpay_clearpay", "affirm"}

// brands are the names of payment methods, the best known first.
var brands = []struct {
	method string
	name   Phrase
}{
	{"card", Phrase{Key: "rail.card.card"}},
	{"apple_pay", Literal("Apple Pay")},
	{"google_pay", Literal("Google Pay")},
	{"paypal", Literal("PayPal")},
	{"klarna", Literal("Klarna")},
	{"link", Literal("Link")},
	{"cashapp", Literal("Cash App Pay")},
	{"affirm", Literal("Affirm")},
	{"afterpay_clearpay", Literal("Afterpay / Clearpay")},
	{"us_bank_account", Phrase{Key: "rail.card.usBankAccount"}},
}

// RailCard is the name of the card rail, which every offer has.
const RailCard = "card"

// SchemeCard identifies the card checkout (docs/developing/decisions.md).
const SchemeCard = "stripe"

func init() { reserved = append(reserved, RailCard, SchemeCard) }

// Card is the hosted card checkout.
type Card struct {
	URL            string   // the address of the checkout
	PaymentMethods []string // what the checkout takes
	TestMode       bool     // the checkout takes test payments
	PaymentLink    string   // the processor's id of the checkout, or empty
	amount         USD
	listed         bool // the operator listed the methods
}

// NewCard makes the card rail. No methods means all that the checkout has.
func NewCard(checkout string, methods []string, amount USD) (*Card, error) {
	if !strings.Contains(checkout, "://") {
		return nil, errors.New("this is not an absolute URL; copy the address of the checkout with its https://, such as https://buy.stripe.com/YOUR_LINK")
	}
	u, err := ParseURL(checkout)
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(u.Hostname(), "dashboard.stripe.com") {
		return nil, errors.New("this is a page of your Stripe account, which payers cannot open; copy the address of the payment link, such as https://buy.stripe.com/YOUR_LINK")
	}
	c := &Card{URL: u.String(), PaymentMethods: slices.Clone(methods), TestMode: isTestCheckout(u), amount: amount, listed: len(methods) > 0}
	if !c.listed {
		c.PaymentMethods = slices.Clone(cardMethods)
	}
	return c, nil
}

// isTestCheckout recognizes Stripe's links in test mode, such as
// https://buy.stripe.com/test_1, and the sandboxes of PayPal and Square.
func isTestCheckout(u *url.URL) bool {
	host, path := "."+strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), strings.ToLower(u.Path)+"/"
	return strings.HasSuffix(host, ".stripe.com") && (strings.Contains(path, "/test_") || strings.Contains(path, "/cs_test_")) ||
		strings.HasPrefix(path, "/b/test_") || // at a domain of the seller's own
		strings.HasSuffix(host, ".sandbox.paypal.com") || strings.HasSuffix(host, ".sandbox.square.link")
}

// Name is "card".
func (c *Card) Name() string { return RailCard }

// Test reports whether the checkout takes test payments.
func (c *Card) Test() bool { return c.TestMode }

// DemoLink is the payment link of every demo and DemoAccount its account. A ledger with this
// account contains simulated money.
const (
	DemoLink    = "plink_pay_offer_demo"
	DemoAccount = cardAccounts + DemoLink
)

// HeaderDemo marks the quotes of a demo, which takes simulated money. Its value is "1".
const HeaderDemo = "Pay-Offer-Demo"

// cardAccounts is the prefix of the accounts of payment links.
const cardAccounts = "stripe/"

// Account is "stripe/<payment link>", empty without one.
func (c *Card) Account() string {
	if c.PaymentLink == "" {
		return ""
	}
	return cardAccounts + c.PaymentLink
}

// Source is a provider.
func (*Card) Source() Source { return SourceProvider }

// Face names the best known method and the processor.
func (c *Card) Face() Face {
	return Face{
		Icon: "M5 5h14a2 2 0 0 1 2 2v10a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2V7a2 2 0 0 1 2-2zM3 10h18",
		Name: c.names()[0], Way: Phrase{Key: "rail.card.way"}, Hint: Phrase{Key: "rail.card.time"},
		Act: Phrase{Key: "rail.card.act", With: With{"amount": c.amount}}, Note: checkoutNote(c.URL),
	}
}

// names are the names of the methods on pages: only the card unless the operator listed
// others. Without a brand "sepa_debit" is "Sepa debit".
func (c *Card) names() (names []Phrase) {
	rest := slices.Clone(c.PaymentMethods)
	if !c.listed {
		rest = []string{RailCard}
	}
	for _, brand := range brands {
		if i := slices.Index(rest, brand.method); i >= 0 {
			names, rest = append(names, brand.name), slices.Delete(rest, i, i+1)
		}
	}
	for _, method := range rest {
		names = append(names, Literal(words(method, "_")))
	}
	return names
}

// checkoutNote names the processor if the host proves it.
func checkoutNote(address string) Phrase {
	host := Host(address)
	if strings.HasSuffix(host, ".stripe.com") {
		host = "Stripe (" + host + ")"
	}
	key := "rail.checkout"
	if !isEncrypted(address) {
		key = "rail.checkoutHere"
	}
	return Phrase{Key: key, With: With{"host": host}}
}

// isEncrypted is false only for checkouts on this machine, such as a demo's.
func isEncrypted(address string) bool { return strings.HasPrefix(address, "https://") }

// words replaces the separators by spaces and capitalizes the first letter.
func words(name, separator string) string {
	name = strings.ReplaceAll(name, separator, " ")
	if name == "" {
		return name
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// TransactionURL is empty: only chains are public.
func (*Card) TransactionURL(string) string { return "" }

// Methods is the checkout.
func (c *Card) Methods(_ *Offer, _ Live) []Method {
	m := Method{
		Rail: RailCard, Scheme: SchemeCard, Title: c.amount.String() + " USD by card or wallet", URL: c.URL,
		AmountUSD: c.amount, Network: OffChain, Asset: "USD", Available: true,
	}
	if c.listed {
		for _, name := range c.names()[1:] { // the first is the name of the row
			m.Facts = append(m.Facts, Fact{Label: "accepts", Value: name})
		}
	}
	return []Method{m}
}

// Fallback is the card checkout as the agent card and every 402 contain it.
type Fallback struct {
	Scheme    string   `json:"scheme" jsonschema:"stripe: a card checkout."`
	Network   string   `json:"network" jsonschema:"fiat: no chain."`
	AmountUSD USD      `json:"amountUsd"`
	Asset     string   `json:"asset" jsonschema:"The currency of the price."`
	URL       string   `json:"url" jsonschema:"The card checkout."`
	Methods   []string `json:"methods" jsonschema:"The payment methods of the checkout."`
}

// Fallback is the card checkout for clients that cannot pay by x402.
func (c *Card) Fallback() Fallback {
	return Fallback{Scheme: SchemeCard, Network: OffChain, AmountUSD: c.amount, Asset: "USD", URL: c.URL, Methods: c.PaymentMethods}
}
