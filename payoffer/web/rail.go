package web

import (
	"net/http"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// noRateRetry is when to ask a rail without a rate again.
const noRateRetry = 60 * time.Second

// railURI is a rail's text/uri-list.
func (s *Server) railURI(rail string) http.Handler {
	return s.shown(func(l *liveResponses) *response { return l.uri[rail] })
}

// railPNG is the redirect to a rail's QR image.
func (s *Server) railPNG(rail string) http.Handler {
	return s.shown(func(l *liveResponses) *response { return l.png[rail] })
}

// railResponses are <rail>.uri and <rail>.png of a method. Without a price there
// is neither, for an amount is never guessed.
func (s *Server) railResponses(m offer.Method, key []byte) (uri, png *response) {
	if !m.Available {
		no := s.problem(http.StatusServiceUnavailable, problemNoRate,
			sentence(m.Reason)+" Every other rail stands at "+s.Offer.URL(offer.PathInvoice)+".", retryAfter(noRateRetry))
		return no, no
	}
	uri = s.render(http.StatusOK, "text/uri-list", cacheLive, document.URIList(m.Link()).Body)
	if key == nil {
		return uri, s.notStarted()
	}
	return uri, s.redirect(qrPath(key, m.Rail, m.Link()))
}
