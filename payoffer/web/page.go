package web

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// varyPage stands on every page (RFC 9110 section 12.5.5).
var varyPage = []header{varyAccept, {"Vary", "Accept-Language"}}

// page is an answer with a page for people.
func (re responder) page(status int, cache string, p page.Page, headers ...header) *response {
	return re.render(status, typeHTML, cache, p.Body, pageHeaders(p, headers)...)
}

// keptPage is one that many are given.
func (re responder) keptPage(cache string, p page.Page, headers ...header) *response {
	return re.kept(typeHTML, cache, p.Body, pageHeaders(p, headers)...)
}

func pageHeaders(p page.Page, headers []header) []header {
	return append(append(headers, varyPage...),
		header{"Content-Language", p.Language}, header{"Content-Security-Policy", p.Policy}, header{"Referrer-Policy", "no-referrer"})
}

// frame is what is around a page at path in the language that a request asks for:
// by the parameter lang, or else by Accept-Language. follows are the other
// parameters that the page is made by.
func (s *Server) frame(r *http.Request, path string, follows ...string) page.Frame {
	f := page.Frame{Offer: s.Offer, Path: path, Query: make(url.Values)}
	query, _ := url.ParseQuery(r.URL.RawQuery) // what can be read of it
	f.Language, f.Chosen = text.Choose(query.Get("lang"), r.Header["Accept-Language"])
	for _, name := range follows {
		if query.Has(name) {
			f.Query.Set(name, query.Get(name))
		}
	}
	return f
}

// pageVariant names what two requests for one page must have in common to be given
// the same.
func pageVariant(f page.Frame) string {
	if f.Chosen {
		return "chosen " + f.Language.Tag
	}
	return f.Language.Tag
}

// railView is one way to pay as a page shows it.
type railView struct {
	offer.Method
	Face offer.Face
	// Href leaves out html/template's list of safe schemes, which has no
	// wallet: every link is one that package offer built.
	Href template.URL
	QR   string
	// Quote is where an amount that follows a rate is read again.
	Quote             string
	Test, Recommended bool
	// Open is the one row that is open at first.
	Open bool
	// Asks says that the page asks a visitor who used the method whether a new payment is
	// theirs. The other methods have a receipt of their own.
	Asks bool
}

func newRailView(rail offer.Rail, m offer.Method, key []byte) railView {
	view := railView{Method: m, Face: rail.Face(), Href: template.URL(m.Link()), Quote: offer.URIPath(m.Rail), Test: rail.Test()}
	switch rail.(type) {
	case *offer.Bitcoin, *offer.Transfer:
		view.Asks = true
	}
	if m.Available && key != nil {
		view.QR = qrPath(key, m.Rail, m.Code())
	}
	return view
}

// ways are the rails as the page offers them: the recommended one first, or else
// the card, and the first that can be paid now open.
func (s *Server) ways(live *liveState) (ways []railView) {
	for _, rail := range s.Offer.Rails {
		way := newRailView(rail, rail.Methods(s.Offer, live.now)[0], live.qrKey)
		if way.Recommended = rail.Name() == s.Offer.Recommend; way.Recommended {
			ways = slices.Insert(ways, 0, way)
		} else {
			ways = append(ways, way)
		}
	}
	open := slices.IndexFunc(ways, func(way railView) bool { return way.Available })
	ways[open].Open = true // the card is always available
	return ways
}

// payPage is GET /v1/pay for people: one way to pay open, the others below it.
func (s *Server) payPage(r *http.Request) *response {
	f, live := s.frame(r, offer.PathMethods), s.live.Load()
	return live.page(f, func() *response {
		var content struct {
			Rails []railView
			// Programs says that they can pay by x402.
			Programs bool
		}
		content.Rails, content.Programs = s.ways(live), len(s.Payments.Accepts()) > 0
		title := f.Language.Text("pay.title", "amount", s.Offer.Amount, "name", s.Offer.Name)
		return s.keptPage(cacheLive, page.Pay.Render(f, title, content))
	})
}

// transferPage is the page of the bank transfer.
func (s *Server) transferPage(t *offer.Transfer) answer {
	return func(r *http.Request) *response {
		f, live := s.frame(r, offer.PagePath(t.Name())), s.live.Load()
		return live.page(f, func() *response {
			title := f.Language.Text("transfer.title", "amount", s.Offer.Amount) + ": " + s.Offer.Name
			content := newRailView(t, t.Methods(s.Offer, live.now)[0], live.qrKey)
			content.Facts = t.Facts()
			return s.keptPage(cacheLive, page.Transfer.Render(f, title, content))
		})
	}
}
