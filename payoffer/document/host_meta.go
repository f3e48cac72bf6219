package document

import (
	"encoding/xml"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// hostMeta is the host metadata. It has no subject, because no URI identifies a host (RFC
// 6415 section 3.1).
func hostMeta(o *offer.Offer) descriptor {
	lrdd := link{Rel: "lrdd", Type: typeJRD, Template: o.URL(offer.PathWebFinger) + "?resource={uri}"}
	return descriptor{Properties: priceProperties(o), Links: append(paymentLinks(o), lrdd)}
}

// HostMetaJSON is the host metadata as JSON (RFC 6415 appendix A).
func HostMetaJSON(o *offer.Offer) Document { return JSON(typeJRD, hostMeta(o)) }

// HostMetaXRD is the host metadata as XML, which RFC 6415 section 2 requires.
func HostMetaXRD(o *offer.Offer) Document {
	body, err := xml.MarshalIndent(hostMeta(o), "", "  ")
	if err != nil {
		panic("document: " + err.Error()) // plain strings always encode
	}
	return Document{Type: "application/xrd+xml", Body: []byte(xml.Header + string(body) + "\n")}
}
