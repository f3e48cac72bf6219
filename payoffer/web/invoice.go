package web

import (
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
)

// liveResponses are those that follow from what may change while the
// configuration stays: the rate, the published address, the keys.
type liveResponses struct {
	invoice, list, page *response
	// did is the DID document, which lists the keys that sign.
	did *response
	// transfer is the bank-transfer page, nil without the rail.
	transfer *response
	// uri and png are by rail.
	uri, png map[string]*response
}

func (s *Server) renderLive() *liveResponses {
	o, now, key := s.Offer, s.Live(), s.QRKey()
	invoice, page := document.Invoice(o, now), s.payPage(now, key)
	live := &liveResponses{
		did:     s.document(document.DID(o, s.keys()...)),
		invoice: s.render(http.StatusOK, invoice.Type, cacheLive, invoice.Body, varyAccept),
		page:    s.page(cacheLive, page, varyAccept),
		uri:     make(map[string]*response), png: make(map[string]*response),
	}
	var links []string
	for _, rail := range o.Rails {
		methods := rail.Methods(o, now)
		live.uri[rail.Name()], live.png[rail.Name()] = s.railResponses(methods[0], key)
		for _, m := range methods {
			if m.Available {
				links = append(links, m.Link())
			}
		}
	}
	if t := o.Transfer(); t != nil {
		live.transfer = s.page(cacheLive, s.renderTransfer(t, key), varyAccept)
	}
	list := document.URIList(links...)
	live.list = s.render(http.StatusOK, list.Type, cacheLive, list.Body, varyAccept)
	return live
}

func (s *Server) keys() []document.VerificationKey {
	if s.Keys == nil {
		return nil
	}
	return s.Keys()
}

// shown serves one of the live responses.
func (s *Server) shown(choose func(*liveResponses) *response) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		choose(s.live.Load()).ServeHTTP(w, r)
	})
}

// invoice is GET /v1/invoice: JSON over all rails, their URIs as a list, or
// the page for people.
func (s *Server) invoice() http.HandlerFunc {
	return negotiate(
		variant{asksJSON, s.shown(func(l *liveResponses) *response { return l.invoice })},
		variant{asksHTML, s.shown(func(l *liveResponses) *response { return l.page })},
		variant{asksURIs, s.shown(func(l *liveResponses) *response { return l.list })})
}

// methods is GET /v1/pay: the page for people, the invoice for programs.
func (s *Server) methods() http.HandlerFunc {
	return negotiate(
		variant{asksJSON, s.shown(func(l *liveResponses) *response { return l.invoice })},
		variant{asksHTML, s.shown(func(l *liveResponses) *response { return l.page })})
}
