package offer

import (
	"cmp"
	"time"
)

// Rail is one way for money to arrive. Documents, invoice, pages, QR codes and
// the MCP result follow from it.
type Rail interface {
	// Name is the rail's path segment under /v1/pay: [a-z0-9-]+.
	Name() string
	// Test reports whether the rail's money is worth nothing.
	Test() bool
	// Account names where the rail's money arrives, so that no two places have
	// the same name; empty where nobody but the operator tells of it.
	Account() string
	// Face is what people see of the rail before they choose it.
	Face() Face
	// TransactionURL is the page of a public explorer that shows a transaction of
	// the rail's chain; empty where there is none.
	TransactionURL(transaction string) string
	// Methods are the ways to pay over this rail now. The first is the one
	// behind <rail>.uri and <rail>.png.
	Methods(o *Offer, live Live) []Method
}

// Live is what may change while the configuration stays the same.
type Live struct {
	Satoshis int64     // the price at the current rate; 0 without one, or if no such amount can exist
	RateAt   time.Time // when that rate was observed; zero without one
	// Address is the one that a rail with an extended public key publishes now;
	// empty while it is not known.
	Address string
}

// Fiat is the network of methods that are not on a chain.
const Fiat = "fiat"

// Method is one way to pay, as the invoice publishes it.
type Method struct {
	Rail   string `json:"rail"`
	Scheme string `json:"scheme"`
	Title  string `json:"title"`
	// URL is a web address; URI any other payment URI. One of them is set
	// when the method is available.
	URL          string `json:"url,omitempty" jsonschema:"A web address."`
	URI          string `json:"uri,omitempty" jsonschema:"Any other payment URI."`
	AmountUSD    USD    `json:"amountUsd"`
	Network      string `json:"network,omitempty" jsonschema:"The chain as a CAIP-2 id, or fiat."`
	Asset        string `json:"asset,omitempty" jsonschema:"The token contract or the currency."`
	Symbol       string `json:"symbol,omitempty"`
	AmountAtomic string `json:"amountAtomic,omitempty"`
	// ValidUntil is, by RFC 3339 in UTC, until when the amount is honoured that
	// follows a rate; empty for any other.
	ValidUntil string `json:"validUntil,omitempty" jsonschema:"Until when an amount that follows a rate is honoured; read it again before."`
	// Holds says so to people.
	Holds Phrase `json:"-"`
	PayTo string `json:"payTo,omitempty" jsonschema:"Where the money goes."`
	Memo  string `json:"memo,omitempty" jsonschema:"The text that identifies the offer."`
	// Bank is the account of a bank transfer; nil where it is told by e-mail.
	Bank *Bank `json:"bank,omitempty" jsonschema:"The account to pay to, with the memo as the reference."`
	// Available is false while the rail cannot quote; Reason says why.
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty" jsonschema:"Why the method is not available."`
	// Why is Reason for people.
	Why Phrase `json:"-"`
	// Chain is the network on which a wallet in the browser can pay it by x402;
	// nil for none.
	Chain *Network `json:"-"`
	// Facts are the same terms for people, to stand beside a QR code.
	Facts []Fact `json:"-"`
}

// Fact is one line of a method's terms for people.
type Fact struct {
	Label string // the key of its name in the catalogues, below "fact"
	Value Phrase
	Copy  string // the bare value that a wallet or a form asks for; empty where nothing is to be copied
}

// Link is the method's URL or URI, empty while it is not available.
func (m Method) Link() string { return cmp.Or(m.URL, m.URI) }

// Code is the text of the QR code beside the method's terms: what the app of a payer's
// bank reads, or else the link.
func (m Method) Code() string {
	if m.Bank != nil && m.Bank.EPC != "" {
		return m.Bank.EPC
	}
	return m.Link()
}
