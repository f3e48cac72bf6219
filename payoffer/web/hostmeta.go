package web

import (
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
)

// hostMeta is /.well-known/host-meta: XRD, or JSON for a client that asks for
// it (RFC 6415 section 3).
func (s *Server) hostMeta() http.HandlerFunc {
	return negotiate(
		variant{asksXRD, s.document(document.HostMetaXRD(s.Offer), varyAccept)},
		variant{asksJRD, s.document(document.HostMetaJSON(s.Offer), varyAccept)})
}
