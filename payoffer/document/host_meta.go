package document

import (
	"encoding/xml"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// hostMeta is the content of both forms. It has no subject and no aliases: no
// URI identifies a host (RFC 6415 section 3.1).
func hostMeta(o *offer.Offer) jrd {
	lrdd := link{Rel: "lrdd", Type: typeJRD, Template: o.URL(offer.PathWebFinger) + "?resource={uri}"}
	return jrd{Properties: priceProperties(o), Links: append(paymentLinks(o), lrdd)}
}

// HostMetaJSON is the host metadata as JSON (RFC 6415 appendix A), with a
// rel=payment link to the card checkout and one to every rail.
func HostMetaJSON(o *offer.Offer) Document { return JSON(typeJRD, hostMeta(o)) }

// xrd is an extensible resource descriptor (XRD 1.0); its schema fixes the
// order of the elements.
type xrd struct {
	XMLName    xml.Name      `xml:"http://docs.oasis-open.org/ns/xri/xrd-1.0 XRD"`
	Properties []xrdProperty `xml:"Property"`
	Links      []xrdLink     `xml:"Link"`
}

type xrdProperty struct {
	Type  string `xml:"type,attr"`
	Value string `xml:",chardata"`
}

type xrdLink struct {
	Rel      string    `xml:"rel,attr"`
	Type     string    `xml:"type,attr,omitempty"`
	Href     string    `xml:"href,attr,omitempty"`
	Template string    `xml:"template,attr,omitempty"`
	Title    *xrdTitle `xml:"Title"`
}

type xrdTitle struct {
	Lang  string `xml:"http://www.w3.org/XML/1998/namespace lang,attr"`
	Value string `xml:",chardata"`
}

// HostMetaXRD is the same metadata as XML, the form that RFC 6415 section 2
// requires and the only one that many clients ask for.
func HostMetaXRD(o *offer.Offer) Document {
	meta := hostMeta(o)
	doc := xrd{Properties: []xrdProperty{
		{propertyPrice, meta.Properties[propertyPrice]},
		{propertyCurrency, meta.Properties[propertyCurrency]},
	}}
	for _, l := range meta.Links {
		x := xrdLink{Rel: l.Rel, Type: l.Type, Href: l.Href, Template: l.Template}
		if title, ok := l.Titles["en"]; ok {
			x.Title = &xrdTitle{Lang: "en", Value: title}
		}
		doc.Links = append(doc.Links, x)
	}
	body, err := xml.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic("document: " + err.Error()) // plain strings always encode
	}
	return Document{Type: "application/xrd+xml", Body: []byte(xml.Header + string(body) + "\n")}
}
