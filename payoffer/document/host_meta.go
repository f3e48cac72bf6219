package document

import (
	"encoding/xml"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// hostMeta is the host metadata in both forms. It has no subject and no
// aliases: no URI identifies a host (RFC 6415 section 3.1).
func hostMeta(o *offer.Offer) descriptor {
	lrdd := link{Rel: "lrdd", Type: typeJRD, Template: o.URL(offer.PathWebFinger) + "?resource={uri}"}
	return descriptor{Properties: priceProperties(o), Links: append(paymentLinks(o), lrdd)}
}

// HostMetaJSON is the host metadata as JSON (RFC 6415 appendix A), with a
// rel=payment link to the card checkout and one to every rail.
func HostMetaJSON(o *offer.Offer) Document { return JSON(typeJRD, hostMeta(o)) }

// HostMetaXRD is the same metadata as XML, the form that RFC 6415 section 2
// requires and the only one that many clients ask for.
func HostMetaXRD(o *offer.Offer) Document {
	body, err := xml.MarshalIndent(hostMeta(o), "", "  ")
	if err != nil {
		panic("document: " + err.Error()) // plain strings always encode
	}
	return Document{Type: "application/xrd+xml", Body: []byte(xml.Header + string(body) + "\n")}
}
