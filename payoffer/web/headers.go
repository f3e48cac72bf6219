package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// sent are the request headers that a script of another origin may send, each by
// its name: a wildcard never covers Authorization (Fetch, "CORS non-wildcard
// request-header name"). The
// reference x402 client sends Access-Control-Expose-Headers, a response
// header, with its request.
var sent = strings.Join([]string{
	x402.HeaderSignature, x402.HeaderSignatureV1, "Authorization", "Payment-Authorization", "Accept-Payment", "Idempotency-Key", "Accept", "Content-Type", "If-None-Match", "Access-Control-Expose-Headers",
	"Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Last-Event-ID", "A2A-Version", "A2A-Extensions", "X-A2A-Extensions",
}, ", ")

// crossOrigin lets scripts of every origin read a response with all of its
// headers, WWW-Authenticate among them: the wildcard exposes each for a request
// without credentials, which a script has made that sets Authorization itself.
var crossOrigin = []header{
	{"Access-Control-Allow-Origin", "*"},
	{"Access-Control-Expose-Headers", "*"},
}

// commonHeaders stand on every response of an offer. The address of its
// description is relative (RFC 8288 section 3.1), for the host name may be long
// and a 402 has little room.
func commonHeaders(card string) []header {
	return []header{
		{"X-Content-Type-Options", "nosniff"},
		{"Link", "<" + card + `>; rel="payment"; type="text/html"`},
		{"Link", "<" + offer.PathOpenAPI + `>; rel="service-desc"; type="application/json"`},
	}
}

// preflight answers OPTIONS, and with it a browser's CORS preflight.
func (re responder) preflight(allow string) *response {
	return re.render(http.StatusNoContent, "", "", nil,
		header{"Allow", allow},
		header{"Access-Control-Allow-Methods", allow},
		header{"Access-Control-Allow-Headers", sent},
		header{"Access-Control-Max-Age", "86400"})
}

// agent is POST /mcp with the headers that every response has. The endpoint
// sets its own headers after them.
func (s *Server) agent() http.Handler {
	common := new(response)
	common.header(append(slices.Clip(s.common), header{"Cache-Control", cacheNever}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		common.setHeaders(w.Header())
		s.Agent.ServeHTTP(w, r)
	})
}
