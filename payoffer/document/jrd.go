package document

import (
	"encoding/xml"
	"maps"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	typeJRD    = "application/jrd+json" // RFC 7033 section 10.2
	relPayment = "payment"              // IANA link relations
)

// descriptor is a resource descriptor as JSON (JRD, RFC 7033 section 4.4) and as XML (XRD
// 1.0, whose schema fixes the order of the elements).
type descriptor struct {
	XMLName    xml.Name   `json:"-" xml:"http://docs.oasis-open.org/ns/xri/xrd-1.0 XRD"`
	Subject    string     `json:"subject,omitempty" xml:",omitempty" jsonschema:"The described resource."`
	Aliases    []string   `json:"aliases,omitempty" xml:"Alias" jsonschema:"Other names of the subject."`
	Properties properties `json:"properties,omitempty" xml:"Property"`
	Links      []link     `json:"links" xml:"Link"`
}

// link has an Href or a Template.
type link struct {
	Rel      string `json:"rel" xml:"rel,attr"`
	Type     string `json:"type,omitempty" xml:"type,attr,omitempty"`
	Href     string `json:"href,omitempty" xml:"href,attr,omitempty" jsonschema:"The target."`
	Template string `json:"template,omitempty" xml:"template,attr,omitempty" jsonschema:"The target's template, with {uri} once."`
	Titles   titles `json:"titles,omitempty" xml:"Title"`
}

// properties are values by URI (RFC 7033 section 4.4.3), titles are texts by language.
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

// eachElement writes one element for each value, with its key as the attribute.
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

// paymentLinks are the card checkout, because clients use the first link, and then the URI
// list of every rail.
func paymentLinks(o *offer.Offer) []link {
	links := []link{{Rel: relPayment, Type: "text/html", Href: o.Card.URL, Titles: titles{"en": unpricedMethod(o, o.Card).Title}}}
	for _, r := range o.Rails {
		links = append(links, link{
			Rel: relPayment, Type: typeURIList, Href: o.URL(offer.URIPath(r.Name())),
			Titles: titles{"en": unpricedMethod(o, r).Title},
		})
	}
	return links
}
