package web

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// route is one row of the table: a method, a path and its handler. GET answers
// HEAD too; OPTIONS and all other methods are answered for every path alike.
type route struct {
	method, path string
	handler      http.Handler
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

// table is every path of the offer, in the order of section 4 of the
// specification; the paths that it leaves open follow.
func (s *Server) table() []route {
	o := s.Offer
	const get, post = http.MethodGet, http.MethodPost
	agentCard := s.fixed(document.AgentCard)
	invoice := variant{asksJSON, s.shown(offer.PathInvoice, s.invoice)}
	people := variant{asksHTML, answer(s.payPage)}
	did := s.shown(offer.PathDID, s.did)
	routes := []route{
		{get, offer.PathHostMetaJSON, s.fixed(document.HostMetaJSON)},
		{get, offer.PathDID, did},
		{get, offer.PathNodeInfo, s.fixed(document.NodeInfoIndex)},
		{get, offer.PathWebFinger, answer(s.webFinger)},
		{get, offer.PathHumans, s.fixed(document.Humans)},
		{get, offer.PathSecurity, answer(func(r *http.Request) *response { return (*s.security.Load())(r) })},
		{get, offer.PathPackage, s.fixed(document.Package)},
		{get, offer.PathPay, s.redirect(o.Card.URL)},
		{get, offer.PathOffer, s.getQuote()},
		{post, offer.PathOffer, s.drained(s.postQuote)},
		{get, offer.PathQuote, s.getQuote()},
		{post, offer.PathQuote, s.drained(s.postQuote)},
		{get, offer.PathInvoice, negotiate(invoice, people, variant{asksURIs, s.shown(offer.PathInvoice+" list", s.links)})},
		{get, offer.PathSkill, s.fixed(document.Skill)},
		{get, offer.PathSponsor, negotiate(variant{asksJSON, once(s.howToSponsor)}, variant{asksHTML, answer(s.sponsorPage)})},
		{post, offer.PathSponsor, written(s.drained(s.sponsor))},
		{post, offer.PathMCP, written(s.agent())},
		{get, offer.PathReceived, answer(s.received)},
		{get, offer.PathThanks, answer(s.thanks)},

		{get, offer.PathMethods, negotiate(invoice, people)},
		{get, offer.PathHostMeta, s.hostMeta()},
		{get, offer.PathDIDRoot, did},
		{get, offer.PathNodeInfo21, s.fixed(document.NodeInfo)},
		{get, offer.PathSecurityRoot, s.redirect(o.URL(offer.PathSecurity))},
		{get, offer.PathAgentCard, agentCard},
		{get, offer.PathAgentCardOld, agentCard},
		{get, offer.PathOpenAPI, s.fixed(func(o *offer.Offer) document.Document { return OpenAPI(o, slices.Sorted(maps.Keys(s.Hooks))...) })},
		{get, offer.PathLLMs, s.fixed(document.LLMs)},
		{get, offer.PathAPICatalog, once(s.apiCatalog)},
		{get, offer.PathIcon, once(s.icon)},
	}
	if o.Funding != nil {
		routes = append(routes, route{get, offer.PathFunding, s.fixed(document.Funding)})
	}
	if accepts := s.Payments.Accepts(); len(accepts) > 0 {
		x402JSON := s.fixed(func(o *offer.Offer) document.Document { return document.X402(o, accepts) })
		routes = append(routes, route{get, offer.PathX402, x402JSON}, route{get, offer.PathX402JSON, x402JSON})
	}
	for _, rail := range o.Rails {
		routes = append(routes, s.railRoutes(rail)...)
	}
	if transfer := o.Transfer(); transfer != nil {
		routes = append(routes, route{get, offer.PagePath(transfer.Name()), s.bankTransfer(transfer)})
	}
	return append(routes, route{get, pathImage, answer(s.qrImage)},
		route{get, pathReceipt, answer(s.receipt)}, route{get, pathSigned, answer(s.signedReceipt)})
}

// resource is everything that one path answers, by method; all methods that it
// does not have are the empty one.
type resource map[string]http.Handler

// ServeHTTP dispatches by method.
func (res resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler := res[r.Method]
	if handler == nil {
		handler = res[""]
	}
	handler.ServeHTTP(w, r)
}

func (s *Server) index(table []route) map[string]http.Handler {
	handlers := make(map[string]http.Handler)
	for _, row := range table {
		res, known := handlers[row.path].(resource)
		if !known {
			res = make(resource)
			handlers[row.path] = res
		}
		res[row.method] = row.handler
	}
	type answers struct{ preflight, notAllowed *response }
	same := make(map[string]answers) // for all paths with the same methods
	for path, handler := range handlers {
		res, re, kind := handler.(resource), s.responder, ""
		switch {
		case path == offer.PathMCP:
			re, kind = s.programs, "programs"
		case strings.HasPrefix(path, pathReceipt):
			re, kind = s.personal, "personal"
		}
		var allowed []string
		if res[http.MethodGet] != nil {
			res[http.MethodHead] = res[http.MethodGet]
			allowed = append(allowed, http.MethodGet, http.MethodHead)
		}
		if res[http.MethodPost] != nil {
			allowed = append(allowed, http.MethodPost)
		}
		allow := strings.Join(append(allowed, http.MethodOptions), ", ")
		shared, known := same[kind+allow]
		if !known {
			shared = answers{re.preflight(allow), re.notAllowed(allow)}
			same[kind+allow] = shared
		}
		res[http.MethodOptions], res[""] = shared.preflight, shared.notAllowed
	}
	return handlers
}

// find is what answers a method at an address, or nil. All below /v1/pay is ours:
// a printed code may outlive its rail, and an empty 200 of Caddy tells nobody so.
func (s *Server) find(method string, u *url.URL) http.Handler {
	resources := s.resources()
	if strings.HasPrefix(u.Path, offer.PathQR+"/") {
		return resources[pathImage]
	}
	if strings.HasPrefix(u.Path, offer.PathReceipt+"/") {
		if strings.HasSuffix(u.Path, signedFile) {
			return resources[pathSigned]
		}
		return resources[pathReceipt]
	}
	if found := resources[u.Path]; found != nil {
		return found
	}
	if hook := s.findHook(method, u); hook != nil || !strings.HasPrefix(u.Path, offer.PathMethods+"/") {
		return hook
	}
	return s.refuse(problemNotFound, "detail", offer.With{"url": s.Offer.URL(offer.PathMethods)})
}
