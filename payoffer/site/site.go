// Package site has the static page of the site host: what is paid and to whom, and a
// countdown that opens the card checkout. Caddy serves it with file_server and templates;
// the template function payOffer returns the Data of the offer of the request's site.
package site

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/picture"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// FS has the page as offer/index.html.
//
//go:embed offer
var FS embed.FS

// Style is shared with the pages of the service host.
//
//go:embed style.css
var Style string

// Data is the content of the page as plain values. Caddy's templates do not escape: every
// text needs html.
type Data struct {
	// Texts of the operator; all but the name may be empty.
	Name, Operator, Description, Contact, Refunds string
	Legal                                         string // the seller's legal lines in one
	Lead                                          string // the description, unless it only repeats the price
	Amount                                        offer.USD
	Currency                                      string // "USD"
	Payee                                         string // the operator, or the offer's name
	// Checkout is the URL of the card checkout. In a Demo its domain is reserved, and the page
	// does not go there by itself.
	Checkout string
	Demo     bool
	Reported bool // the payments received are public
	Pretend  bool // everything behind the page is a demo, including the checkout
	Test     bool // the checkout takes test payments only
	// BaseURL is the origin of the service host. The others are URLs of the page and of images.
	BaseURL, Page, Logo, Icon, Stylesheet, Preview string
	Initial, Host                                  string // of the payee, in place of a logo; of the page
	Where                                          string // names the host of the checkout
	// Methods are the first method of each rail but the card, without prices that follow an
	// exchange rate.
	Methods []Method
	// JSONLD is the offer as JSON-LD, Texts the script's texts as JSON; both are safe in a script element.
	JSONLD, Texts string
	// Style and Script are inlined. Headers are the page's security headers.
	Style, Script string
	Headers       map[string]string
	Language      *text.Language
	chosen        bool // the URL names the language
}

// Method is a payment method with its name and how long it takes, as on the payment page.
type Method struct {
	offer.Method
	Name, Time string
}

// NewData is the Data of an offer in the requested language: that of the tag, or of the lines
// of an Accept-Language header.
func NewData(o *offer.Offer, tag string, accept []string) Data {
	language, chosen := text.Choose(tag, accept)
	o = language.Offer(*o, o.Amount)
	d := Data{
		Language: language, chosen: chosen, Name: o.Name, Operator: o.Operator, Description: o.Description, Contact: o.Contact, Refunds: o.Refunds, Legal: strings.Join(o.Legal, " · "), Amount: o.Amount, Currency: "USD",
		Payee: cmp.Or(o.Operator, o.Name), Checkout: o.Card.URL, Demo: Demo(o), Reported: !o.PrivateReceived, Pretend: o.Demo, Test: o.Card.Test() && !o.Demo, BaseURL: o.BaseURL, Page: o.SitePage(), Logo: o.Logo,
		Initial: Initial(cmp.Or(o.Operator, o.Name)), Host: offer.Host(o.SiteURL),
		JSONLD: inScript(NewJSONLD(o)), Style: Brand(o) + Style,
	}
	d.Icon, d.Stylesheet, d.Lead = Icon(o), o.Style, language.Lead(o)
	d.Preview = o.URL(offer.PathPreview)
	d.Where = d.Language.Say(o.Card.Face().Note)
	for _, rail := range o.Rails[1:] {
		name := d.Language.Say(rail.Face().Name)
		if rail.Test() {
			name += " " + d.Language.Text("received.test")
		}
		d.Methods = append(d.Methods, Method{rail.Methods(o, offer.Live{})[0], name, d.Language.Say(rail.Face().Hint)})
	}
	// The page loads its own icon and the operator's image, and nothing else.
	policy := "default-src 'none'; img-src data:"
	if d.Logo != "" {
		policy += " " + d.BaseURL
	}
	policy += "; style-src " + Source(d.Style)
	if d.Stylesheet != "" {
		policy += " " + d.BaseURL
	}
	if !d.Demo {
		d.Script, d.Texts = countdown, inScript(d.Language.Group("site.countdown"))
		policy += "; script-src " + Source(d.Script) + "; connect-src 'self'" // for checkers of robots.txt
	}
	d.Headers = map[string]string{
		"Content-Security-Policy": policy + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"Content-Language":        d.Language.Tag, "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
	}
	return d
}

var (
	//go:embed countdown.js
	countdown string
)

// Source allows an inlined style or script in a Content-Security-Policy (CSP Level 3).
func Source(inlined string) string {
	sum := sha256.Sum256([]byte(inlined))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// inScript is JSON for a script element: encoding/json escapes "<".
func inScript(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic("site: " + err.Error()) // plain strings always marshal
	}
	return string(data)
}

// reservedNames are the domains that cannot be registered (RFC 2606, RFC 6761).
var reservedNames = regexp.MustCompile(`(?i)(^|\.)(example|invalid|test|localhost|example\.(com|net|org))\.?$`)

// Demo reports whether the checkout of an offer has a reserved domain.
func Demo(o *offer.Offer) bool {
	u, err := url.Parse(o.Card.URL)
	return err == nil && reservedNames.MatchString(u.Hostname())
}

// Icon is the address of the icon of a page on any host: the logo, or the icon itself.
func Icon(o *offer.Offer) string {
	return cmp.Or(o.Logo, "data:image/svg+xml;base64,"+base64.StdEncoding.EncodeToString(picture.Icon(o)))
}

// Initial is the first letter of a name, in upper case.
func Initial(name string) string {
	for _, r := range name {
		return strings.ToUpper(string(r))
	}
	return ""
}

// T is the text of a key with its values, given as pairs of name and value.
func (d Data) T(key string, pairs ...any) string { return d.Language.Text(key, pairs...) }

// Languages are the languages of the page.
func (Data) Languages() []*text.Language { return text.Languages }

// Link is the URL of a page of the service host, in the same language.
func (d Data) Link(path string) string { return d.inLanguage(d.BaseURL + path) }

// Canonical is the page's own URL.
func (d Data) Canonical() string { return d.inLanguage(d.Page) }

func (d Data) inLanguage(address string) string {
	if d.chosen {
		return address + "?lang=" + d.Language.Tag
	}
	return address
}

// JSONLD is a schema.org Offer.
type JSONLD struct {
	Context       string        `json:"@context"`
	Type          string        `json:"@type"`
	Name          string        `json:"name"`
	Description   string        `json:"description,omitempty"`
	URL           string        `json:"url"`
	Price         string        `json:"price"`
	PriceCurrency string        `json:"priceCurrency"`
	Availability  string        `json:"availability"`
	Seller        *Organization `json:"seller,omitempty"`
}

// Organization is a schema.org Organization.
type Organization struct {
	Type string `json:"@type"`
	Name string `json:"name"`
	URL  string `json:"url"`
}

// NewJSONLD is the offer for search engines.
func NewJSONLD(o *offer.Offer) JSONLD {
	out := JSONLD{
		Context: "https://schema.org", Type: "Offer", Name: o.Name, Description: o.Description,
		URL: o.Card.URL, Price: o.Amount.Decimal(), PriceCurrency: "USD", Availability: "https://schema.org/InStock",
	}
	if o.Operator != "" {
		out.Seller = &Organization{Type: "Organization", Name: o.Operator, URL: o.SiteURL}
	}
	return out
}

// Write writes the page below dir. It returns an error if another page exists there.
func Write(dir string) error {
	const name = "offer/index.html"
	page, err := FS.ReadFile(name)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	switch existing, err := os.ReadFile(path); {
	case err == nil && !bytes.Equal(existing, page):
		return fmt.Errorf("%s exists and differs from the page of this version; move it away or choose another folder", path)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the existing page: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("create the folder of the page: %w", err)
	}
	if err := os.WriteFile(path, page, 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
