package web

import (
	"net/http"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// requestHeaders are those that a script of another origin may send. They are listed,
// because a wildcard does not cover Authorization (Fetch). The reference x402 client sends
// Access-Control-Expose-Headers, a response header.
var requestHeaders = strings.Join([]string{
	x402.HeaderSignature, x402.HeaderSignatureV1, "Authorization", "Payment-Authorization", "Accept-Payment",
	"Idempotency-Key", "Accept", "Content-Type", "If-None-Match", "Access-Control-Expose-Headers",
	"Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Last-Event-ID", "A2A-Version", "A2A-Extensions", "X-A2A-Extensions",
}, ", ")

// crossOrigin lets scripts of every origin read a response and all of its headers.
var crossOrigin = []header{
	{"Access-Control-Allow-Origin", "*"},
	{"Access-Control-Expose-Headers", "*"},
}

// commonHeaders are the headers of every response. The address of the API description is
// relative, because the header block of a 402 has little room.
func commonHeaders(card string) []header {
	return []header{
		{"X-Content-Type-Options", "nosniff"},
		{"Link", "<" + card + `>; rel="payment"; type="text/html"`},
		{"Link", "<" + offer.PathOpenAPI + `>; rel="service-desc"; type="application/json"`},
	}
}

// preflight answers OPTIONS, including a browser's CORS preflight.
func (re responder) preflight(allow string) *response {
	return re.render(http.StatusNoContent, "", "", nil,
		header{"Allow", allow},
		header{"Access-Control-Allow-Methods", allow},
		header{"Access-Control-Allow-Headers", requestHeaders},
		header{"Access-Control-Max-Age", "86400"})
}

// agent is POST /mcp with the common headers. The endpoint adds its own.
func (s *Server) agent() http.Handler {
	common := s.render(http.StatusOK, "", cacheNever, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		common.setHeaders(w.Header())
		s.Agent.ServeHTTP(w, r)
	})
}

// HeadersOf returns the headers of the answer to a request without a body and without other headers than Accept.
func (s *Server) HeadersOf(method, path, accept string) http.Header {
	w := headersOnly{}
	r, err := http.NewRequest(method, s.Offer.URL(path), http.NoBody)
	if err == nil {
		r.Header.Set("Accept", accept)
		s.Serve(w, r)
	}
	return http.Header(w)
}

// headersOnly keeps the headers of an answer.
type headersOnly http.Header

func (h headersOnly) Header() http.Header             { return http.Header(h) }
func (headersOnly) Write(content []byte) (int, error) { return len(content), nil }
func (headersOnly) WriteHeader(int)                   {}
