package offer

import (
	"cmp"
	"strings"
	"time"
)

// Rail is one payment method. Documents, invoice, pages, QR codes and the MCP result are
// generated from it.
type Rail interface {
	// Name is the rail's path segment under /v1/pay: [a-z0-9-]+.
	Name() string
	// Test reports whether the rail takes test money.
	Test() bool
	// Account is a unique name for where the money arrives; empty if only the operator
	// reports payments.
	Account() string
	// Source is who reports the payments of the rail.
	Source() Source
	// Face is what payers see before they choose the rail.
	Face() Face
	// TransactionURL is the page of a transaction in a public explorer; empty without one.
	TransactionURL(transaction string) string
	// Methods are the ways to pay over this rail now. The first is the one
	// behind <rail>.uri and <rail>.png.
	Methods(o *Offer, live Live) []Method
}

// Live is what changes while the configuration stays the same.
type Live struct {
	Satoshis int64     // the price at the current rate; 0 without one, or if no such amount can exist
	RateAt   time.Time // when that rate was observed; zero without one
	// Address is the current address of an extended public key; empty while unknown.
	Address string
	// Networks are those on which x402 payments are offered: CAIP-2 ids, each with a blank after it; empty for all.
	Networks string
}

// Takes reports whether x402 payments are offered on a network (a CAIP-2 id).
func (l Live) Takes(network string) bool {
	return l.Networks == "" || strings.Contains(l.Networks, network+" ")
}

// Source is who reports the payments of a rail.
type Source int

const (
	SourceChain    Source = iota + 1 // a public chain; payments cannot be entered
	SourceProvider                   // a provider, if its options are set, or the seller
	SourceSeller                     // only the seller, who enters payments
)

// OffChain is the network of methods that are not on a chain.
const OffChain = "fiat"

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
	// ValidUntil is when an amount that follows a rate expires (RFC 3339, UTC).
	ValidUntil string `json:"validUntil,omitempty" jsonschema:"Until when an amount that follows a rate is honoured; read it again before."`
	// Holds says ValidUntil on a page.
	Holds Phrase `json:"-"`
	PayTo string `json:"payTo,omitempty" jsonschema:"Where the money goes."`
	Memo  string `json:"memo,omitempty" jsonschema:"The text that identifies the offer."`
	// InvoiceURL is set if each payment needs an invoice of its own, which the server sees when it is paid.
	InvoiceURL string `json:"invoiceUrl,omitempty" jsonschema:"Where POST makes an invoice for one payment, which the server sees when it is paid."`
	// Bank is the account of a bank transfer; nil if it is sent by e-mail.
	Bank *Bank `json:"bank,omitempty" jsonschema:"The account to pay to, with the memo as the reference."`
	// Available is false while the rail cannot quote an amount.
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty" jsonschema:"Why the method is not available."`
	// Why is Reason on a page.
	Why Phrase `json:"-"`
	// Chain is the network on which a browser wallet can pay by x402, or nil.
	Chain *Network `json:"-"`
	// Facts are the same terms on a page, next to the QR code.
	Facts []Fact `json:"-"`
}

// Fact is one line of a method's terms on a page.
type Fact struct {
	Label  string // the key of its name in the catalogs, below "fact"
	Value  Phrase
	Copy   string // the value to copy into a wallet or a form, or empty
	Detail bool   // few payers need it
}

// Tail is the end of an address on a chain. A page shows it when the middle is cut off.
func (f Fact) Tail() string {
	if f.Label != "to" && f.Label != "token" {
		return ""
	}
	return f.Copy[len(f.Copy)-5:]
}

// Link is the method's URL or URI, empty while it is not available.
func (m Method) Link() string { return cmp.Or(m.URL, m.URI) }

// Code is the text of the QR code: the EPC code of a bank account, or the link.
func (m Method) Code() string {
	if m.Bank != nil && m.Bank.EPC != "" {
		return m.Bank.EPC
	}
	return m.Link()
}
