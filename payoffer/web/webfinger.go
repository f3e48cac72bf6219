package web

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
)

// webFinger is RFC 7033: 400 for a query without one readable resource, 404
// for a resource that is not ours. Clients send the resource escaped or not.
func (s *Server) webFinger(w http.ResponseWriter, r *http.Request) {
	s.webFingerResponse(r.URL.RawQuery).ServeHTTP(w, r)
}

func (s *Server) webFingerResponse(rawQuery string) *response {
	query, err := url.ParseQuery(rawQuery)
	if err != nil || len(query["resource"]) != 1 {
		return s.problem(http.StatusBadRequest, problemResource,
			"Send the query parameter resource once, as in ?resource="+s.Offer.Acct()+".")
	}
	found, err := document.WebFinger(s.Offer, query.Get("resource"), query["rel"])
	switch {
	case errors.Is(err, document.ErrUnknownResource):
		return s.problem(http.StatusNotFound, problemUnknown, "Only "+s.Offer.Acct()+" is known here; ask for it.")
	case err != nil:
		return s.problem(http.StatusBadRequest, problemResource,
			"The parameter resource must be a URI with a scheme, as in ?resource="+s.Offer.Acct()+".")
	}
	return s.document(found)
}
