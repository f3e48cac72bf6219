// Package site holds the static page of the site host: what is paid and to
// whom, and a countdown that opens the card checkout. Caddy serves it with
// file_server and templates; the template function payOffer finds the Data of
// the offer whose site the request is for.
package site

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// FS holds the page as offer/index.html.
//
//go:embed offer
var FS embed.FS

// Style is the look that the page shares with the pages of the service host.
//
//go:embed style.css
var Style string

// Data is what the page shows, as plain values. Templates of Caddy do not
// escape: every text needs html.
type Data struct {
	// Name, Operator and Description are the operator's text.
	Name, Operator, Description string
	// Amount is a number of dollars, as in "42"; Currency is "USD".
	Amount, Currency string
	// Payee is who is paid: the operator, or the offer's name.
	Payee string
	// Checkout is the address of the card checkout.
	Checkout string
	// BaseURL is the origin of the service host.
	BaseURL string
	// Methods are the first method of each rail but the card. One that follows
	// the exchange rate holds no price here.
	Methods []offer.Method
	// JSONLD is the offer as JSON-LD, escaped for a script element.
	JSONLD string
	// Style is the shared style sheet.
	Style string
}

// NewData are the values for an offer.
func NewData(o *offer.Offer) Data {
	d := Data{
		Name: o.Name, Operator: o.Operator, Description: o.Description, Amount: o.Amount.String(), Currency: "USD",
		Payee: cmp.Or(o.Operator, o.Name), Checkout: o.Card.URL, BaseURL: o.BaseURL, Style: Style,
	}
	for _, rail := range o.Rails[1:] {
		d.Methods = append(d.Methods, rail.Methods(o, offer.Live{})[0])
	}
	// encoding/json escapes what could end a script element.
	jsonLD, err := json.Marshal(NewJSONLD(o))
	if err != nil {
		panic("site: " + err.Error()) // plain strings always marshal
	}
	d.JSONLD = string(jsonLD)
	return d
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

// NewJSONLD is the offer for search engines (schema.org/Offer); price is in
// dollars.
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

// Write writes the page below dir, which is made if needed. A page with other
// content is never overwritten: the error names it, and nothing is written.
func Write(dir string) error {
	const name = "offer/index.html"
	page, err := FS.ReadFile(name)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	switch there, err := os.ReadFile(path); {
	case err == nil && !bytes.Equal(there, page):
		return fmt.Errorf("%s exists and differs from the page of this version; move it away or choose another folder", path)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("look for a page that is there already: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the folder of the page: %w", err)
	}
	if err := os.WriteFile(path, page, 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
