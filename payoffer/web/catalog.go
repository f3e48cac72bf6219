package web

import (
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
