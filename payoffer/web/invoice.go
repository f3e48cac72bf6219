package web

import (
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
)

// liveAnswers are the answers that follow from what may change while the
// configuration stays: the rate, the published address, the keys.
type liveAnswers struct {
	invoice, list, page *answer
	// did is the DID document, which lists the keys that sign.
	did *answer
	// transfer is the bank-transfer page, nil without the rail.
	transfer *answer
	// uri and png are by rail.
	uri, png map[string]*answer
}

func (s *Server) renderLive() *liveAnswers {
	o, now, key := s.Offer, s.Live(), s.QRKey()
	invoice, page := document.Invoice(o, now), s.payPage(now, key)
	live := &liveAnswers{
		did:     s.document(document.DID(o, s.keys()...)),
		invoice: s.answer(http.StatusOK, invoice.Type, cacheLive, invoice.Body, varyAccept),
		page:    s.page(cacheLive, page, varyAccept),
		uri:     make(map[string]*answer), png: make(map[string]*answer),
	}
	var links []string
	for _, rail := range o.Rails {
		methods := rail.Methods(o, now)
		live.uri[rail.Name()], live.png[rail.Name()] = s.railAnswers(methods[0], key)
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
	live.list = s.answer(http.StatusOK, list.Type, cacheLive, list.Body, varyAccept)
	return live
}

func (s *Server) keys() []document.VerificationKey {
	if s.Keys == nil {
		return nil
	}
	return s.Keys()
}

// shown serves one of the live answers.
func (s *Server) shown(choose func(*liveAnswers) *answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		choose(s.live.Load()).ServeHTTP(w, r)
	})
}

// invoice is GET /v1/invoice: JSON over all rails, their URIs as a list, or
// the page for people.
func (s *Server) invoice() http.HandlerFunc {
	return negotiate(
		variant{asksJSON, s.shown(func(l *liveAnswers) *answer { return l.invoice })},
		variant{asksHTML, s.shown(func(l *liveAnswers) *answer { return l.page })},
		variant{asksURIs, s.shown(func(l *liveAnswers) *answer { return l.list })})
}

// methods is GET /v1/pay: the page for people, the invoice for programs.
func (s *Server) methods() http.HandlerFunc {
	return negotiate(
		variant{asksJSON, s.shown(func(l *liveAnswers) *answer { return l.invoice })},
		variant{asksHTML, s.shown(func(l *liveAnswers) *answer { return l.page })})
}
