package web

import (
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// apiCatalog is the API catalog. Its answer, to HEAD too, carries a link to
// itself by the relation that clients ask for (RFC 9727 section 2).
func (s *Server) apiCatalog() *response {
	self := header{"Link", "<" + s.Offer.URL(offer.PathAPICatalog) + `>; rel="api-catalog"`}
	return responder{append(slices.Clone(s.common), self)}.document(document.APICatalog(s.Offer))
}

// hostMeta is /.well-known/host-meta: XRD, or JSON for a client that asks for
// it (RFC 6415 section 3).
func (s *Server) hostMeta() http.HandlerFunc {
	return negotiate(
		variant{asksXRD, s.document(document.HostMetaXRD(s.Offer), varyAccept)},
		variant{asksJRD, s.document(document.HostMetaJSON(s.Offer), varyAccept)})
}

// webFinger is RFC 7033: 400 for a query without one readable resource, 404
// for a resource that is not ours. Clients send the resource escaped or not.
func (s *Server) webFinger(r *http.Request) *response {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(query["resource"]) != 1 {
		return s.problem(problemResource, "Send the query parameter resource once, as in ?resource="+s.Offer.Acct()+".")
	}
	found, err := document.WebFinger(s.Offer, query.Get("resource"), query["rel"])
	switch {
	case errors.Is(err, document.ErrUnknownResource):
		return s.problem(problemUnknown, "Only "+s.Offer.Acct()+" is known here; ask for it.")
	case err != nil:
		return s.problem(problemResource, "The parameter resource must be a URI with a scheme, as in ?resource="+s.Offer.Acct()+".")
	}
	return s.document(found)
}
