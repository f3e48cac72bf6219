package document

import (
	"encoding/xml"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

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

// Errors of WebFinger.
var (
	// errResource: the resource is missing or is no URI (HTTP 400, RFC 7033
	// section 4.2).
	errResource = errors.New("the query parameter resource is missing or is not a URI; send one, as in resource=acct:pay@pay.example.org")
	// ErrUnknownResource: the resource is somebody else's (HTTP 404).
	ErrUnknownResource = errors.New("this server knows nothing of the resource; it answers for its own payment account only")
)

// WebFinger is the descriptor of the pay account (RFC 7033). resource is the
// one decoded value of the query parameter of this name; a request with two
// must be refused before. The account, the service's origin and its DID are
// known; the answer always names the account as its subject. rels, when there
// are any, select links by their relation. It returns errResource or
// ErrUnknownResource.
func WebFinger(o *offer.Offer, resource string, rels []string) (Document, error) {
	u, err := url.Parse(resource)
	if err != nil || u.Scheme == "" {
		return Document{}, errResource
	}
	if !knows(o, resource, u) {
		return Document{}, ErrUnknownResource
	}
	profile := link{Rel: "http://webfinger.net/rel/profile-page", Type: "text/html", Href: o.SitePage()}
	links := append(paymentLinks(o), profile)
	if len(rels) > 0 {
		links = slices.DeleteFunc(links, func(l link) bool { return !slices.Contains(rels, l.Rel) })
	}
	return JSON(typeJRD, descriptor{
		Subject: o.Acct(), Aliases: []string{o.BaseURL, o.DID()}, Properties: priceProperties(o), Links: links,
	}), nil
}

// knows reports whether a resource means the pay account. Hosts compare
// without regard to case; so does the account, whose configured name is in
// lower case. An acct URI has no port (RFC 7565), but clients of a service on
// another port send one.
func knows(o *offer.Offer, resource string, u *url.URL) bool {
	host := offer.Host(o.BaseURL)
	scheme, _, _ := strings.Cut(o.BaseURL, ":")
	switch {
	case u.RawQuery != "" || u.Fragment != "":
		return false
	case u.Scheme == "acct":
		account, at, found := strings.Cut(u.Opaque, "@")
		base := url.URL{Host: host}
		return found && strings.EqualFold(account, o.Account) &&
			(strings.EqualFold(at, host) || strings.EqualFold(at, base.Hostname()))
	case u.Scheme == scheme:
		return u.User == nil && strings.EqualFold(u.Host, host) && (u.Path == "" || u.Path == "/")
	default:
		return resource == o.DID()
	}
}
