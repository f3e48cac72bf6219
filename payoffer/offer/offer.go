// Package offer contains the terms of the offer and its rails as plain values: amounts,
// addresses and payment URIs. It does no I/O and reads no clock.
package offer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Offer is one fixed payment and the rails that take it. It is immutable.
type Offer struct {
	Terms
	Card  *Card  // the card checkout, which every offer has
	Rails []Rail // all of them in the order of publication, the card first
	Gates []Gate // the routes that a payment opens, by their starts
}

// Terms are the options of the offer that concern no rail.
type Terms struct {
	ID                          string // names the offer in the ledger
	BaseURL, SiteURL            string // the origins of the service and of the site
	Home                        string // the address to which payers go back after a payment; empty for the root of SiteURL
	Name, Operator, Description string // text on pages
	Contact                     string // an e-mail address, or empty
	SourceURL                   string // the page of the source code
	Account                     string // the local part of acct:<account>@<host> (RFC 7565)
	Amount                      USD    // the price
	Updated                     string // the day of the configuration, such as "2026-11-21"
	Demo                        bool   // checkouts, facilitator and money are simulated

	// Texts and options of the pages.
	Recommend       string   // the name of the rail that is open first; empty for the card
	Logo            string   // the address of an image on the service host, or empty
	Style           string   // the address of a stylesheet on the service host, or empty
	Accent          Color    // of buttons and links; empty for the default
	Thanks, Refunds string   // texts after the payment and about refunds, or empty
	Legal           []string // the lines that an invoice needs: name, address, tax number
	Goal            USD      // the sum to be received; 0 for no goal
	PrivateReceived bool     // the totals and payments received are not published

	// Options of the API.
	Tags []string // keywords for directories
	MPP  string   // the header of MPP credentials; empty if MPP is off
}

// DefaultName names an offer without a name of its own.
const DefaultName = "Payment offer"

// DefaultDescription describes an offer without a description of its own.
func DefaultDescription(price USD) string { return "One fixed payment of " + price.String() + " USD." }

// Challenges reports whether quotes contain an MPP challenge, which needs USDC.
func (o *Offer) Challenges() bool { return o.MPP != "" && len(o.USDC()) > 0 }

// railName is the form of a rail's path segment.
var railName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// account matches a local part of an acct URI that needs no escaping.
var account = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`)

// reserved are our own paths and the ids on the payment page. Each rail whose name is fixed
// adds that name and its schemes.
var reserved = []string{"qr", "arrived", "texts", "preview"}

// CheckRailName checks a name that an operator chose for a rail.
func CheckRailName(name string) error {
	if !railName.MatchString(name) {
		return fmt.Errorf("%q is not the name of a rail; write lower-case letters, digits and single hyphens, such as tip-jar", name)
	}
	if slices.Contains(reserved, name) || strings.HasPrefix(name, "usdc-") {
		return fmt.Errorf("the name %q is reserved for another rail; write another one, such as tip-jar", name)
	}
	return nil
}

// CheckAccount checks the local part of the acct URI.
func CheckAccount(name string) error {
	if !account.MatchString(name) {
		return fmt.Errorf("%q is not the name of an account; write lower-case letters, digits, dots, hyphens and underscores, such as pay", name)
	}
	return nil
}

// New makes an offer. Rail names must be unique.
func New(terms Terms, card *Card, rails ...Rail) (*Offer, error) {
	if card == nil {
		return nil, errors.New("the card checkout is missing, and every offer needs one; add for example 'card https://buy.stripe.com/YOUR_LINK'")
	}
	terms.Home, terms.Accent = cmp.Or(terms.Home, terms.SiteURL+"/"), cmp.Or(terms.Accent, DefaultAccent)
	if terms.Home == card.URL || terms.Home == terms.SiteURL+PathSite {
		return nil, errors.New("home: this address leads to the checkout, and payers come there after they paid; write another page of yours")
	}
	o := &Offer{Terms: terms, Card: card, Rails: append([]Rail{card}, rails...)}
	seen := make(map[string]bool)
	for _, r := range o.Rails {
		if seen[r.Name()] {
			return nil, fmt.Errorf("two rails are named %q; give one of them another name, such as tip-jar", r.Name())
		}
		seen[r.Name()] = true
	}
	if terms.Recommend != "" && !seen[terms.Recommend] {
		names := slices.Sorted(maps.Keys(seen))
		return nil, fmt.Errorf("recommend: there is no rail %q; valid names: %s", terms.Recommend, strings.Join(names, ", "))
	}
	return o, nil
}

// URL is the absolute address of a path on the service host.
func (o *Offer) URL(path string) string { return o.BaseURL + path }

// SitePage is the address of the page on the site host.
func (o *Offer) SitePage() string { return o.SiteURL + PathSite }

// Acct is the offer's account as a URI: acct:<account>@<host> (RFC 7565).
func (o *Offer) Acct() string { return "acct:" + o.Account + "@" + Host(o.BaseURL) }

// DID is the offer's did:web identifier.
func (o *Offer) DID() string { return DIDWeb(o.BaseURL) }

// Methods are all ways to pay now, in the order of the rails.
func (o *Offer) Methods(live Live) []Method {
	var methods []Method
	for _, r := range o.Rails {
		methods = append(methods, r.Methods(o, live)...)
	}
	return methods
}

// Rail finds a rail by name.
func (o *Offer) Rail(name string) (Rail, bool) {
	i := slices.IndexFunc(o.Rails, func(r Rail) bool { return r.Name() == name })
	if i < 0 {
		return nil, false
	}
	return o.Rails[i], true
}

// AccountOf is the account of a rail in the ledger. Rails without an account get a name that
// no other offer has.
func (o *Offer) AccountOf(r Rail) string { return cmp.Or(r.Account(), "operator/"+o.ID+"/"+r.Name()) }

// USDC are the rails that take USDC, in order.
func (o *Offer) USDC() (found []*USDC) {
	for _, r := range o.Rails {
		if rail, ok := r.(*USDC); ok {
			found = append(found, rail)
		}
	}
	return found
}

// BankTransfer is the bank-transfer rail, or nil.
func (o *Offer) BankTransfer() *BankTransfer { return railOf[*BankTransfer](o) }

// Bitcoin is the Bitcoin rail, or nil.
func (o *Offer) Bitcoin() *Bitcoin { return railOf[*Bitcoin](o) }

// Test reports whether all chain rails, and at least one, are on test networks. Test money
// counts only then.
func (o *Offer) Test() bool {
	var tests []bool
	for _, u := range o.USDC() {
		tests = append(tests, u.Test())
	}
	if b := o.Bitcoin(); b != nil {
		tests = append(tests, b.Test())
	}
	return len(tests) > 0 && !slices.Contains(tests, false)
}

func railOf[R Rail](o *Offer) (none R) {
	for _, r := range o.Rails {
		if rail, ok := r.(R); ok {
			return rail
		}
	}
	return none
}
