package web

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

var varyPage = header{"Vary", "Accept, Accept-Language"}

// page is a response with a page for browsers.
func (re responder) page(status int, cache string, p page.Page, headers ...header) *response {
	return re.render(status, typeHTML, cache, p.Body, pageHeaders(p, headers)...)
}

// compressiblePage is a page without secrets.
func (re responder) compressiblePage(cache string, p page.Page) *response {
	return re.compressible(typeHTML, cache, p.Body, pageHeaders(p, nil)...)
}

func pageHeaders(p page.Page, headers []header) []header {
	return append(headers, varyPage,
		header{"Content-Language", p.Language}, header{"Content-Security-Policy", p.Policy}, header{"Referrer-Policy", "no-referrer"})
}

// frame is the frame of the page at path in the requested language: that of the parameter
// lang, or of Accept-Language. parameters are the other ones that the page depends on.
func (s *Server) frame(r *http.Request, path string, parameters ...string) page.Frame {
	f := page.Frame{Path: path, Query: make(url.Values)}
	query, _ := url.ParseQuery(r.URL.RawQuery) // invalid parameters are ignored
	f.Language, f.Chosen = text.Choose(query.Get("lang"), r.Header["Accept-Language"])
	f.Offer = f.Language.Offer(*s.Offer, s.Offer.Amount)
	for _, name := range parameters {
		if query.Has(name) {
			f.Query.Set(name, query.Get(name))
		}
	}
	return f
}

// pageVariant is the cache key of a page: requests with the same key get the same page.
func pageVariant(f page.Frame) string {
	if f.Chosen {
		return "chosen " + f.Language.Tag
	}
	return f.Language.Tag
}

// railView is one payment method as a page shows it.
type railView struct {
	offer.Method
	Face              offer.Face
	Href              template.URL // built by package offer; html/template would reject wallet schemes
	QR                string       // the path of the QR image
	Quote             string       // the path of the current amount, for methods with an exchange rate
	Test, Recommended bool
	Open              bool // initially; one method is
}

func newRailView(rail offer.Rail, m offer.Method, key []byte) railView {
	view := railView{Method: m, Face: rail.Face(), Href: template.URL(m.Link()), Quote: offer.URIPath(m.Rail), Test: rail.Test()}
	code := m.Code()
	if m.Available && m.URL == "" && m.InvoiceURL == "" && key != nil && !strings.HasPrefix(code, "mailto:") { // a checkout, an invoice or a mail is opened here, not scanned
		view.QR = qrPath(key, m.Rail, code)
	}
	return view
}

// railViews are the payment methods in the order of the page: the recommended one first.
// The first available one is open.
func (s *Server) railViews(live *liveState) (views []railView) {
	for _, rail := range s.Offer.Rails {
		view := newRailView(rail, rail.Methods(s.Offer, live.now)[0], live.qrKey)
		if view.Recommended = rail.Name() == s.Offer.Recommend; view.Recommended {
			views = slices.Insert(views, 0, view)
		} else {
			views = append(views, view)
		}
	}
	open := slices.IndexFunc(views, func(view railView) bool { return view.Available })
	views[open].Open = true // the card is always available
	return views
}

// payPage is GET /v1/pay for browsers.
func (s *Server) payPage(r *http.Request) *response {
	if back := s.storeReturnAddress(r); back != nil {
		return back
	}
	f, live := s.frame(r, offer.PathMethods), s.live.Load()
	return live.page(f, func() *response {
		var content struct {
			Rails    []railView
			Programs bool // can pay by x402
		}
		content.Rails, content.Programs = s.railViews(live), len(s.Payments.Accepts()) > 0
		title := f.Language.Text("pay.title", "amount", s.Offer.Amount, "name", f.Offer.Name)
		return s.compressiblePage(cacheLive, page.Pay.Render(f, title, content))
	})
}

// transferPage is the page of the bank transfer.
func (s *Server) transferPage(t *offer.BankTransfer) responseFunc {
	return func(r *http.Request) *response {
		f, live := s.frame(r, offer.PagePath(t.Name())), s.live.Load()
		return live.page(f, func() *response {
			title := f.Language.Text("transfer.title", "amount", s.Offer.Amount) + ": " + f.Offer.Name
			content := struct {
				railView
				Accounts []offer.Account
			}{newRailView(t, t.Methods(s.Offer, live.now)[0], live.qrKey), t.Accounts()}
			return s.compressiblePage(cacheLive, page.Transfer.Render(f, title, content))
		})
	}
}
