package document

import (
	"encoding/xml"
	"maps"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// typeJRD is the media type of a JSON resource descriptor (RFC 7033 section
// 10.2).
const typeJRD = "application/jrd+json"

// relPayment is the registered link relation to a place to pay (IANA link
// relations).
const relPayment = "payment"

// descriptor is a resource descriptor, as JSON (JRD, RFC 7033 section 4.4) and
// as XML (XRD 1.0, whose schema fixes the order of the elements).
type descriptor struct {
	XMLName    xml.Name   `json:"-" xml:"http://docs.oasis-open.org/ns/xri/xrd-1.0 XRD"`
	Subject    string     `json:"subject,omitempty" xml:",omitempty" jsonschema:"Whom the descriptor is about."`
	Aliases    []string   `json:"aliases,omitempty" xml:"Alias" jsonschema:"Other names of the subject."`
	Properties properties `json:"properties,omitempty" xml:"Property"`
	Links      []link     `json:"links" xml:"Link"`
}

// link is a link of a resource descriptor: Href or Template, never both.
type link struct {
	Rel      string `json:"rel" xml:"rel,attr"`
	Type     string `json:"type,omitempty" xml:"type,attr,omitempty"`
	Href     string `json:"href,omitempty" xml:"href,attr,omitempty" jsonschema:"The target."`
	Template string `json:"template,omitempty" xml:"template,attr,omitempty" jsonschema:"The target's template, with {uri} once."`
	Titles   titles `json:"titles,omitempty" xml:"Title"`
}

// properties have URIs for names and strings for values (RFC 7033 section
// 4.4.3), titles stand by their language. XML has an element for each.
type (
	properties map[string]string
	titles     map[string]string
)

func (p properties) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	return eachElement(e, start, xml.Name{Local: "type"}, p)
}

func (t titles) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	return eachElement(e, start, xml.Name{Space: "http://www.w3.org/XML/1998/namespace", Local: "lang"}, t)
}

// eachElement writes an element for each value, its key as the attribute.
func eachElement(e *xml.Encoder, start xml.StartElement, attribute xml.Name, values map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		start.Attr = []xml.Attr{{Name: attribute, Value: key}}
		if err := e.EncodeElement(values[key], start); err != nil {
			return err
		}
	}
	return nil
}

// priceProperties are the price in terms of schema.org.
func priceProperties(o *offer.Offer) properties {
	return properties{"https://schema.org/price": o.Amount.Decimal(), "https://schema.org/priceCurrency": "USD"}
}

// paymentLinks are the card checkout and then the URI list of every rail. The
// checkout stands first because clients take the first link of a relation.
func paymentLinks(o *offer.Offer) []link {
	links := []link{{Rel: relPayment, Type: "text/html", Href: o.Card.URL, Titles: titles{"en": fixed(o, o.Card).Title}}}
	for _, r := range o.Rails {
		links = append(links, link{
			Rel: relPayment, Type: typeURIList, Href: o.URL(offer.URIPath(r.Name())), Titles: titles{"en": fixed(o, r).Title},
		})
	}
	return links
}
