package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
	"github.com/payoffer/caddy-pay-offer/payoffer/picture"
)

// route is one method of one path, with its description. GET answers HEAD too; OPTIONS and
// other methods are answered alike for every path.
type route struct {
	document.Operation
	handler func(*Server) http.Handler
	// onChains limits the route to offers with a USDC rail, and gates to those with a gate.
	onChains, gates bool
}

// Paths with a parameter. Receipts are private: scripts of other origins cannot read them.
const (
	pathImage   = offer.PathQR + "/{rail}/{image}"
	pathReceipt = offer.PathReceipt + "/{id}"
	pathSigned  = pathReceipt + signedFile
	signedFile  = "/receipt.jws"
	pathEnter   = pathReceipt + enterFile
	enterFile   = "/enter"
	pathEnd     = pathReceipt + endFile
	endFile     = "/sign-out"
)

// Bodies of responses with status 200.
var (
	bodyURIs   = document.Body{Type: "text/uri-list"}
	bodyJRD    = document.Body{Type: "application/jrd+json", Schema: "JRD"}
	bodyObject = document.Body{Type: typeJSON}
	bodyDID    = document.Body{Type: "application/did+json", Schema: "DIDDocument"}
)

func jsonBody(schema string) document.Body { return document.Body{Type: typeJSON, Schema: schema} }

func get(path, summary string, handler func(*Server) http.Handler, ok ...document.Body) route {
	return route{Operation: document.Operation{Method: http.MethodGet, Path: path, Summary: summary, OK: ok}, handler: handler}
}

func post(path, summary string, handler func(*Server) http.Handler, ok ...document.Body) route {
	r := get(path, summary, handler, ok...)
	r.Method = http.MethodPost
	return r
}

func (r route) with(traits document.Traits) route { r.Traits = traits; return r }

func (r route) forChains() route { r.onChains = true; return r }

func (r route) forGates() route { r.gates = true; return r }

func (r route) explain(description string) route { r.Description = description; return r }

func (r route) query(name, kind, description string) route {
	r.Parameters = append(r.Parameters, document.Parameter{In: "query", Name: name, Type: kind, Description: description})
	return r
}

func tagged(tag string, routes ...route) []route {
	for i := range routes {
		routes[i].Tag = tag
	}
	return routes
}

// quoteTraits are those of the paths that quote.
const quoteTraits = document.Redirects | document.Quotes | document.Leads

// fixedRoutes are the routes that no rail adds: those of the interface
// (docs/developing/decisions.md) and our own.
func fixedRoutes() []route {
	return slices.Concat(
		tagged("payment",
			get(offer.PathPay, "Open the card checkout", static(func(s *Server) *response { return s.redirect(s.Offer.Card.URL) })).
				with(document.Redirects|document.Leads),
			get(offer.PathOffer, "Quote the payment, or open the card checkout in a browser", (*Server).getQuote).with(quoteTraits),
			post(offer.PathOffer, "Quote the payment; the body is ignored", discardBody((*Server).postQuote)).with(document.Quotes|document.Leads),
			get(offer.PathQuote, "Alias of "+offer.PathOffer, (*Server).getQuote).with(quoteTraits),
			post(offer.PathQuote, "Alias of "+offer.PathOffer, discardBody((*Server).postQuote)).with(document.Quotes|document.Leads),
			get(offer.PathSponsor, "How to pay", (*Server).sponsorTerms, document.HTML, jsonBody("Terms")),
			post(offer.PathSponsor, "Quote the payment or take it; the body is ignored", (*Server).postSponsor).
				with(document.Quotes|document.Leads|document.Charges),
			get(offer.PathInvoice, "Every payment method as of now", (*Server).invoices, jsonBody("Invoice"), bodyURIs, document.HTML).
				explain("An invoice is a quote, not a payment."),
		),
		tagged("receipts",
			get(offer.PathReceived, "Payments received, or every change of them in order", afterStart((*Server).received),
				jsonBody("Received Feed"), document.HTML).with(document.Retries).
				query("before", "integer", "Only receipts with a lower number. Not together with after.").
				query("after", "string", "Only changes after this cursor, as a feed; 0 begins at the start.").
				query("limit", "integer", "At most this many, 1 to 100. Default: 20 receipts or 100 changes.").
				explain("With `after`: the feed. A reader that stores `cursor` together with what it did, and then requests `next`, misses no change "+
					"and sees none twice. 410 means that the cursor is no longer valid: read again from 0 and replace what you stored."),
			get(pathReceipt, "One payment, for its payer", afterStart((*Server).receipt), jsonBody("Payment"), document.HTML).with(document.Retries).
				explain("The address is the payer's secret. The answer to the payment contains it."),
			get(pathSigned, "The signed receipt of one payment (JWS)", afterStart((*Server).signedReceipt), document.Body{Type: "application/jose"}).
				with(document.Retries),
			get(pathEnter, "Enter the gated site by a payment", afterStart((*Server).enterGate)).with(document.Redirects|document.Retries).forGates(),
			post(pathEnd, "Sign out all browsers of a payment", afterStart((*Server).signOut)).with(document.Redirects|document.Retries).forGates(),
			get(offer.PathThanks, "The state of a checkout's payment", afterStart((*Server).thanks), document.HTML, jsonBody("Arrival")).
				with(document.Retries).query("session_id", "string", "The checkout session, which the card processor fills in."),
		),
		tagged("rails",
			get(offer.PathMethods, "Every payment method: a page, or the invoice", (*Server).methods, document.HTML, jsonBody("Invoice")),
			get(pathImage, "A QR image", perRequest((*Server).qrImage), document.Body{Type: typePNG}),
			// A part of the page, which the API description leaves out.
			get(page.WalletPath, "", static((*Server).walletScript)).forChains(),
		),
		tagged("agents", mcpRoute()),
		tagged("discovery",
			get(offer.PathHostMeta, "Host metadata (RFC 6415)", (*Server).hostMeta, document.Body{Type: "application/xrd+xml"}, bodyJRD),
			get(offer.PathHostMetaJSON, "Host metadata as JSON (RFC 6415)", staticDocument(document.HostMetaJSON), bodyJRD),
			get(offer.PathWebFinger, "WebFinger of the pay account (RFC 7033)", perRequest((*Server).webFinger), bodyJRD).
				query("resource", "string", "The account, such as acct:pay@pay.example.org.").query("rel", "string", "Only links with this relation."),
			get(offer.PathDID, "DID document (did:web)", (*Server).didDocument, bodyDID),
			get(offer.PathDIDRoot, "DID document, second address", (*Server).didDocument, bodyDID),
			get(offer.PathNodeInfo, "NodeInfo discovery", staticDocument(document.NodeInfoIndex), jsonBody("JRD")),
			get(offer.PathNodeInfo21, "NodeInfo 2.1 with payment metadata", staticDocument(document.NodeInfo), jsonBody("NodeInfo")),
			get(offer.PathHumans, "The operator and every rail (humans.txt)", staticDocument(document.Humans), document.Plain),
			get(offer.PathSecurity, "Contacts (RFC 9116)", perRequest((*Server).securityText), document.Plain),
			get(offer.PathSecurityRoot, "Leads to security.txt", static((*Server).securityRoot)).
				with(document.Redirects),
			get(offer.PathPackage, "Package document with funding addresses (npm)", staticDocument(document.Package), jsonBody("PackageDocument")),
			get(offer.PathSkill, "Agent skill: how to pay", staticDocument(document.Skill), document.Body{Type: "text/markdown"}),
			get(offer.PathAgentCard, "Agent card (A2A 0.3.0)", staticDocument(document.AgentCard), jsonBody("AgentCard")),
			get(offer.PathAgentCardOld, "Agent card, older address", staticDocument(document.AgentCard), jsonBody("AgentCard")),
			get(offer.PathOpenAPI, "This description", static((*Server).openAPI), bodyObject),
			get(offer.PathLLMs, "Summary for language models (llms.txt)", staticDocument(document.LLMs), document.Plain),
			get(offer.PathAPICatalog, "API catalog (RFC 9727)", static((*Server).apiCatalog),
				document.Body{Type: "application/linkset+json", Schema: "Linkset"}),
			get(offer.PathIcon, "The icon", svgImage(picture.Icon), document.Body{Type: typeSVG}),
			get(offer.PathFavicon, "The icon as ICO", rasterImage(typeICO, picture.Favicon), document.Body{Type: typeICO}),
			get(offer.PathTouchIcon, "The icon for home screens", rasterImage(typePNG, picture.TouchIcon),
				document.Body{Type: typePNG}),
			get(offer.PathPreview, "The image of shared links", (*Server).preview,
				document.Body{Type: typePNG}),
			get(offer.PathButton, "A button for other sites", svgImage(picture.Button), document.Body{Type: typeSVG}),
			get(offer.PathBadge, "A badge for other sites", svgImage(picture.Badge), document.Body{Type: typeSVG}),
			get(offer.PathX402, "Payable resources for x402 directories", (*Server).x402, jsonBody("X402Resources")).forChains(),
			get(offer.PathX402JSON, "Payable resources, second address", (*Server).x402, jsonBody("X402Resources")).forChains(),
		),
	)
}

// mcpRoute is the agent endpoint, whose errors are JSON-RPC too.
func mcpRoute() route {
	r := post(offer.PathMCP, "Agent endpoint: MCP and A2A by JSON-RPC 2.0", (*Server).agent, bodyObject).
		explain("Call tools/call with the tool `" + document.ToolName + "` for every payment method. If the result demands a payment, the same " +
			"call with the signed payment in its _meta settles it. A2A clients send message/send or SendMessage.")
	r.Responses = map[string]any{
		"202": document.Response("The notification was accepted."),
		"4XX": document.Response("A JSON-RPC error.", bodyObject),
		"5XX": document.Response("A JSON-RPC error.", bodyObject),
	}
	return r
}

// railRoutes are two routes for each rail, and the page of the bank transfer.
func railRoutes(o *offer.Offer) []route {
	var all []route
	for _, rail := range o.Rails {
		method := rail.Methods(o, offer.Live{})[0]
		traits := document.Traits(0)
		if method.Link() == "" { // the link needs an exchange rate
			traits = document.Retries
		}
		all = append(all,
			get(offer.URIPath(rail.Name()), "Payment URI: "+method.Title, func(s *Server) http.Handler { return s.railURI(rail) },
				bodyURIs, jsonBody("Method")).with(traits),
			get(offer.PNGPath(rail.Name()), "QR code: "+method.Title, func(s *Server) http.Handler { return s.railImage(rail) }).
				with(document.Redirects|document.Retries))
		if method.InvoiceURL != "" {
			all = append(all,
				get(offer.PagePath(rail.Name()), "Leads to the method on the payment page",
					perRequest(func(s *Server, r *http.Request) *response { return s.toMethod(r, rail) })).with(document.Redirects),
				post(offer.PagePath(rail.Name()), "Make an invoice for one payment; the body is ignored",
					discardBody(func(s *Server, r *http.Request) *response { return s.newInvoice(r, rail) }), jsonBody("PaymentRequest")).
					with(document.Redirects|document.Retries))
		}
	}
	if t := o.BankTransfer(); t != nil {
		all = append(all, get(offer.PagePath(t.Name()), "Payee, amount and reference of the bank transfer",
			func(s *Server) http.Handler { return s.bankTransfer(t) }, document.HTML, jsonBody("Transfer")))
	}
	return tagged("rails", all...)
}

// makesInvoices reports whether a rail needs an invoice for each payment.
func makesInvoices(o *offer.Offer) bool {
	return slices.ContainsFunc(o.Methods(offer.Live{}), func(m offer.Method) bool { return m.InvoiceURL != "" })
}

// table is every route of an offer.
func table(o *offer.Offer) []route {
	rows := slices.Concat(fixedRoutes(), railRoutes(o))
	if makesInvoices(o) {
		i := slices.IndexFunc(rows, func(r route) bool { return r.Path == pathReceipt })
		rows[i].OK[0] = jsonBody("Payment PaymentRequest")
	}
	return slices.DeleteFunc(rows, func(r route) bool {
		return r.onChains && len(o.USDC()) == 0 || r.gates && len(o.Gates) == 0 || r.Path == offer.PathReceived && o.PrivateReceived
	})
}

// perRequest chooses a response for each request.
func perRequest(choose func(*Server, *http.Request) *response) func(*Server) http.Handler {
	return func(s *Server) http.Handler {
		return responseFunc(func(r *http.Request) *response { return choose(s, r) })
	}
}

// afterStart is perRequest for a response that needs the ledger, which may not be open yet.
func afterStart(choose func(*Server, *http.Request) *response) func(*Server) http.Handler {
	return perRequest(func(s *Server, r *http.Request) *response {
		s.WaitStarted(r.Context())
		return choose(s, r)
	})
}

// static renders a response once per configuration.
func static(render func(*Server) *response) func(*Server) http.Handler {
	return func(s *Server) http.Handler { return renderOnce(func() *response { return render(s) }) }
}

func staticDocument(render func(*offer.Offer) document.Document) func(*Server) http.Handler {
	return static(func(s *Server) *response { return s.document(render(s.Offer)) })
}

// resource is all methods of one path.
type resource struct {
	get, post, preflight, notAllowed http.Handler
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
		handler = res.notAllowed
	}
	handler.ServeHTTP(w, r)
}

// newResources are the resources of the table, by path.
func (s *Server) newResources() map[string]*resource {
	all := make(map[string]*resource)
	for _, row := range table(s.Offer) {
		if all[row.Path] == nil {
			all[row.Path] = new(resource)
		}
		if row.Method == http.MethodGet {
			all[row.Path].get = row.handler(s)
		} else {
			all[row.Path].post = row.handler(s)
		}
	}
	if s.Offer.PrivateReceived {
		all[offer.PathReceived] = &resource{get: s.refuse(problemPrivate, "detail", nil)}
	}
	for path, res := range all {
		re, allow := s.responder, http.MethodOptions
		switch {
		case path == offer.PathMCP:
			re = s.programs
		case strings.HasPrefix(path, pathReceipt):
			re = s.personal
		}
		if res.post != nil {
			allow = "POST, " + allow
		}
		if res.get != nil {
			allow = "GET, HEAD, " + allow
		}
		res.preflight = renderOnce(func() *response { return re.preflight(allow) })
		res.notAllowed = renderOnce(func() *response { return re.notAllowed(allow) })
	}
	return all
}

// find returns the handler of a URL, or nil. All paths below /v1/pay are ours: a printed QR
// code may outlive its rail, and Caddy's empty 200 would hide that.
func (s *Server) find(u *url.URL) http.Handler {
	path := u.Path
	switch {
	case strings.HasPrefix(path, offer.PathQR+"/"):
		path = pathImage
	case strings.HasPrefix(path, offer.PathReceipt+"/"):
		_, file, _ := strings.Cut(strings.TrimPrefix(path, offer.PathReceipt+"/"), "/")
		if path = pathReceipt; s.resources[path+"/"+file] != nil {
			path += "/" + file
		}
	}
	if found := s.resources[path]; found != nil {
		return found
	}
	if hook := s.findHook(u); hook != nil || !strings.HasPrefix(u.Path, offer.PathMethods+"/") {
		return hook
	}
	return s.refuse(problemNotFound, "detail", offer.With{"url": s.Offer.URL(offer.PathMethods)})
}

// Links are the addresses that anybody may request with GET, sorted.
func (s *Server) Links() []string {
	var links []string
	for _, row := range table(s.Offer) {
		path := row.Path
		if row.Method != http.MethodGet || strings.Contains(path, "{") {
			continue
		}
		if path == offer.PathWebFinger {
			path += "?resource=" + url.QueryEscape(s.Offer.Acct())
		}
		links = append(links, s.Offer.URL(path))
	}
	slices.Sort(links)
	return links
}
