package document

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Errors of WebFinger (RFC 7033 section 4.2): status 400 and 404.
var (
	errResource        = errors.New("the query parameter resource is not a URI; send one, such as resource=acct:pay@pay.example.org")
	ErrUnknownResource = errors.New("the resource is not the payment account of this server; send its acct URI, such as resource=acct:pay@pay.example.org")
)

// WebFinger is the descriptor of the pay account (RFC 7033). resource is the account, the
// service's origin or its DID. rels, if any, select links by their relation.
func WebFinger(o *offer.Offer, resource string, rels []string) (Document, error) {
	u, err := url.Parse(resource)
	if err != nil || u.Scheme == "" {
		return Document{}, errResource
	}
	if !isPayAccount(o, resource, u) {
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

// isPayAccount reports whether a resource is the pay account, ignoring case. An acct URI has no port
// (RFC 7565), but some clients send one.
func isPayAccount(o *offer.Offer, resource string, u *url.URL) bool {
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
