package document

import "github.com/payoffer/caddy-pay-offer/payoffer/offer"

// typeJRD is the media type of a JSON resource descriptor (RFC 7033 section
// 10.2).
const typeJRD = "application/jrd+json"

// Property names of a resource descriptor must be URIs and their values
// strings (RFC 7033 section 4.4.3); these are terms of schema.org.
const (
	propertyPrice    = "https://schema.org/price"
	propertyCurrency = "https://schema.org/priceCurrency"
)

// relPayment is the registered link relation to a place to pay (IANA link
// relations).
const relPayment = "payment"

// jrd is a JSON resource descriptor (RFC 7033 section 4.4).
type jrd struct {
	Subject    string            `json:"subject,omitempty" jsonschema:"Whom the descriptor is about."`
	Aliases    []string          `json:"aliases,omitempty" jsonschema:"Other names of the subject."`
	Properties map[string]string `json:"properties,omitempty"`
	Links      []link            `json:"links"`
}

// link is a link of a resource descriptor: Href or Template, never both.
type link struct {
	Rel      string            `json:"rel"`
	Type     string            `json:"type,omitempty"`
	Href     string            `json:"href,omitempty" jsonschema:"The target."`
	Template string            `json:"template,omitempty" jsonschema:"The target's template, with {uri} once."`
	Titles   map[string]string `json:"titles,omitempty"`
}

// priceProperties are the price as properties of a descriptor.
func priceProperties(o *offer.Offer) map[string]string {
	return map[string]string{propertyPrice: o.Amount.Decimal(), propertyCurrency: "USD"}
}

// paymentLinks are the card checkout and then the URI list of every rail. The
// checkout stands first because clients take the first link of a relation.
func paymentLinks(o *offer.Offer) []link {
	links := []link{{
		Rel: relPayment, Type: "text/html", Href: o.Card.URL,
		Titles: map[string]string{"en": fixed(o, o.Card).Title},
	}}
	for _, r := range o.Rails {
		links = append(links, link{
			Rel: relPayment, Type: typeURIList, Href: o.URL(offer.URIPath(r.Name())),
			Titles: map[string]string{"en": fixed(o, r).Title},
		})
	}
	return links
}
