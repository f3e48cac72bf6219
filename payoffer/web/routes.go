package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// route is one row of the table: a method, a path, and what makes a server's handler for
// them when somebody first asks; a server without the row has none. GET answers HEAD too;
// OPTIONS and all other methods are answered for every path alike.
type route struct {
	method, path string
	handler      func(*Server) http.Handler
}

// pathImage is a template: what follows PathQR rebuilds a
// payment URI.
const pathImage = offer.PathQR + "/{rail}/{image}"

// Receipts are templates, too, and private: no script of another origin may read
// them.
const (
	pathReceipt = offer.PathReceipt + "/{id}"
	pathSigned  = pathReceipt + signedFile
	signedFile  = "/receipt.jws"
)

// routes are the rows that do not depend on the rails, in the order of section 4 of the
// specification; the paths that it leaves open follow. All offers share them.
var routes = []route{
	{http.MethodGet, offer.PathHostMetaJSON, fixed(document.HostMetaJSON)},
	{http.MethodGet, offer.PathDID, (*Server).didDocument},
	{http.MethodGet, offer.PathNodeInfo, fixed(document.NodeInfoIndex)},
	{http.MethodGet, offer.PathWebFinger, answered((*Server).webFinger)},
	{http.MethodGet, offer.PathHumans, fixed(document.Humans)},
	{http.MethodGet, offer.PathSecurity, answered(func(s *Server, r *http.Request) *response { return (*s.security.Load())(r) })},
	{http.MethodGet, offer.PathPackage, fixed(document.Package)},
	{http.MethodGet, offer.PathPay, rendered(func(s *Server) *response { return s.redirect(s.Offer.Card.URL) })},
	{http.MethodGet, offer.PathOffer, (*Server).getQuote},
	{http.MethodPost, offer.PathOffer, drained((*Server).postQuote)},
	{http.MethodGet, offer.PathQuote, (*Server).getQuote},
	{http.MethodPost, offer.PathQuote, drained((*Server).postQuote)},
	{http.MethodGet, offer.PathInvoice, (*Server).invoices},
	{http.MethodGet, offer.PathSkill, fixed(document.Skill)},
	{http.MethodGet, offer.PathSponsor, (*Server).sponsorTerms},
	{http.MethodPost, offer.PathSponsor, (*Server).postSponsor},
	{http.MethodPost, offer.PathMCP, written((*Server).agent)},
	{http.MethodGet, offer.PathReceived, reported((*Server).received)},
	{http.MethodGet, offer.PathThanks, reported((*Server).thanks)},

	{http.MethodGet, offer.PathMethods, (*Server).methods},
	{http.MethodGet, offer.PathHostMeta, (*Server).hostMeta},
	{http.MethodGet, offer.PathDIDRoot, (*Server).didDocument},
	{http.MethodGet, offer.PathNodeInfo21, fixed(document.NodeInfo)},
	{http.MethodGet, offer.PathSecurityRoot, rendered(func(s *Server) *response { return s.redirect(s.Offer.URL(offer.PathSecurity)) })},
	{http.MethodGet, offer.PathAgentCard, fixed(document.AgentCard)},
	{http.MethodGet, offer.PathAgentCardOld, fixed(document.AgentCard)},
	{http.MethodGet, offer.PathOpenAPI, rendered((*Server).openAPI)},
	{http.MethodGet, offer.PathLLMs, fixed(document.LLMs)},
	{http.MethodGet, offer.PathAPICatalog, rendered((*Server).apiCatalog)},
	{http.MethodGet, offer.PathIcon, rendered((*Server).icon)},
	{http.MethodGet, offer.PathX402, only((*Server).quotes, rendered((*Server).x402))},
	{http.MethodGet, offer.PathX402JSON, only((*Server).quotes, rendered((*Server).x402))},
	{http.MethodGet, pathImage, answered((*Server).qrImage)},
	{http.MethodGet, pathReceipt, reported((*Server).receipt)},
	{http.MethodGet, pathSigned, reported((*Server).signedReceipt)},
}

// routesAt are the same rows by their paths.
var routesAt = func() map[string][]route {
	rows := make(map[string][]route)
	for _, row := range routes {
		rows[row.path] = append(rows[row.path], row)
	}
	return rows
}()

// quotes reports whether programs can pay the offer.
func (s *Server) quotes() bool { return len(s.Payments.Accepts()) > 0 }

// only is a row's handler for the servers that have it.
func only(has func(*Server) bool, handler func(*Server) http.Handler) func(*Server) http.Handler {
	return func(s *Server) http.Handler {
		if !has(s) {
			return nil
		}
		return handler(s)
	}
}

// answered is a row's handler that chooses a response to each request.
func answered(choose func(*Server, *http.Request) *response) func(*Server) http.Handler {
	return func(s *Server) http.Handler {
		return answer(func(r *http.Request) *response { return choose(s, r) })
	}
}

// reported is answered for a response that needs the ledger, which may still be opening.
func reported(choose func(*Server, *http.Request) *response) func(*Server) http.Handler {
	return answered(func(s *Server, r *http.Request) *response {
		s.Started(r.Context())
		return choose(s, r)
	})
}

// rendered is a row's handler with a response that only a new configuration changes.
func rendered(render func(*Server) *response) func(*Server) http.Handler {
	return func(s *Server) http.Handler { return once(func() *response { return render(s) }) }
}

// fixed is a row's handler with a discovery document that only a new configuration
// changes.
func fixed(render func(*offer.Offer) document.Document) func(*Server) http.Handler {
	return rendered(func(s *Server) *response { return s.document(render(s.Offer)) })
}

// table is every path of the offer.
func (s *Server) table() []route {
	return slices.DeleteFunc(slices.Concat(routes, s.railRoutes()), func(row route) bool { return row.handler(s) == nil })
}

// at are the rows of a path.
func (s *Server) at(path string) []route {
	if !strings.HasPrefix(path, offer.PathMethods+"/") {
		return routesAt[path]
	}
	return slices.DeleteFunc(s.railRoutes(), func(row route) bool { return row.path != path })
}

// resource is everything that one path answers.
type resource struct {
	get, post, preflight http.Handler // nil where there is none
	notAllowed           func() *response
}

// ServeHTTP dispatches by method.
func (res *resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var handler http.Handler
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		handler = res.get
	case http.MethodPost:
		handler = res.post
	case http.MethodOptions:
		handler = res.preflight
	}
	if handler == nil {
		handler = res.notAllowed()
	}
	handler.ServeHTTP(w, r)
}

// resource is what a path of the table answers, made for who first asks for it; nil for
// any other path.
func (s *Server) resource(path string) *resource {
	if kept := s.resources.find(path); kept != nil {
		return kept()
	}
	rows := s.at(path)
	if len(rows) == 0 {
		return nil
	}
	return s.resources.get(path, func() *resource { return s.newResource(path, rows) })
}

func (s *Server) newResource(path string, rows []route) *resource {
	res, re, allowed := new(resource), s.responder, []string(nil)
	switch {
	case path == offer.PathMCP:
		re = s.programs
	case strings.HasPrefix(path, pathReceipt):
		re = s.personal
	}
	for _, row := range rows {
		handler := row.handler(s)
		switch {
		case handler == nil:
		case row.method == http.MethodGet:
			res.get = handler
			allowed = append(allowed, http.MethodGet, http.MethodHead)
		default:
			res.post = handler
			allowed = append(allowed, http.MethodPost)
		}
	}
	if len(allowed) == 0 {
		return nil
	}
	allow := strings.Join(append(allowed, http.MethodOptions), ", ")
	res.preflight = once(func() *response { return re.preflight(allow) })
	res.notAllowed = func() *response { return re.notAllowed(allow) }
	return res
}

// find returns the handler of an address, or nil. All below /v1/pay is ours:
// a printed code may outlive its rail, and an empty 200 of Caddy tells nobody so.
func (s *Server) find(u *url.URL) http.Handler {
	path := u.Path
	switch {
	case strings.HasPrefix(path, offer.PathQR+"/"):
		path = pathImage
	case strings.HasPrefix(path, offer.PathReceipt+"/") && strings.HasSuffix(path, signedFile):
		path = pathSigned
	case strings.HasPrefix(path, offer.PathReceipt+"/"):
		path = pathReceipt
	}
	if found := s.resource(path); found != nil {
		return found
	}
	if hook := s.findHook(u); hook != nil || !strings.HasPrefix(u.Path, offer.PathMethods+"/") {
		return hook
	}
	return s.refuse(problemNotFound, "detail", offer.With{"url": s.Offer.URL(offer.PathMethods)})
}
