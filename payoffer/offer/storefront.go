package offer

import (
	"strings"
)

// Storefront is a checkout at a shop, priced at the offer's amount.
type Storefront struct {
	Product   string // the shop's id of what is sold, or empty
	Label     string // the shop's name on pages; empty for its host
	name, url string
	amount    USD
}

// NewStorefront makes the rail name for a shop's checkout address.
func NewStorefront(name, checkout string, amount USD) (*Storefront, error) {
	u, err := ParseURL(checkout)
	if err != nil {
		return nil, err
	}
	return &Storefront{name: name, url: u.String(), amount: amount}, nil
}

// Name is the path segment that the operator chose, such as "tip-jar".
func (s *Storefront) Name() string { return s.name }

// Test is false, because test purchases make no receipts.
func (s *Storefront) Test() bool { return false }

// Account is "gumroad/<product>", empty without one.
func (s *Storefront) Account() string {
	if s.Product == "" {
		return ""
	}
	return "gumroad/" + s.Product
}

// Source is a provider.
func (*Storefront) Source() Source { return SourceProvider }

// Face names the shop, and without a label also the rail: two may be on one host.
func (s *Storefront) Face() Face {
	host := Host(s.url)
	name, hint := Literal(host), Literal(words(s.name, "-"))
	if s.Label != "" {
		name, hint = Literal(s.Label), name
	}
	return Face{
		Icon: "M4 9l1-4h14l1 4M5 9v10h14V9M9 19v-5h6v5",
		Name: name, Way: name, Fee: Phrase{Key: "rail.storefront.fee"}, Hint: hint,
		Act: Phrase{Key: "rail.storefront.act"}, Note: checkoutNote(s.url),
	}
}

// TransactionURL is empty: only chains are public.
func (*Storefront) TransactionURL(string) string { return "" }

// Methods is the shop's checkout.
func (s *Storefront) Methods(_ *Offer, _ Live) []Method {
	return []Method{{
		Rail: s.name, Scheme: "storefront", URL: s.url,
		Title:     s.amount.String() + " USD at the storefront: " + strings.ReplaceAll(s.name, "-", " "),
		AmountUSD: s.amount, Network: OffChain, Asset: "USD", Available: true,
	}}
}
