package web

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Values of Cache-Control.
const (
	cacheDocument = "public, max-age=300"                 // only a new configuration changes the content
	cacheLive     = "no-cache"                            // a price changes it, or Accept chooses it: revalidate
	cacheNever    = "no-store"                            // quotes, redirects, errors and receipts
	cacheForever  = "public, max-age=31536000, immutable" // the URL identifies the content
)

// Media types of responses.
const (
	typeHTML    = "text/html; charset=utf-8"
	typeJSON    = "application/json"
	typePNG     = "image/png"
	typeSVG     = "image/svg+xml"
	typeICO     = "image/vnd.microsoft.icon"
	typeProblem = "application/problem+json"
)

// response is a complete response, rendered before its request unless choose is set.
type response struct {
	status int
	header http.Header
	body   []byte
	// required, if not nil, returns the value of PAYMENT-REQUIRED, which differs in each response.
	required func() string
	// challenges, if not nil, appends the values of WWW-Authenticate, which differ in each response.
	challenges func(values []string) []string
	// gzipped, if not nil, returns the compressed form.
	gzipped func() *response
	// choose, if not nil, renders a response to the request.
	choose func(r *http.Request) *response
	// paid, if not nil, ends with the response.
	paid *x402.Response
}

// header is one header of a response in canonical form.
type header struct{ name, value string }

// responder renders responses that share headers.
type responder struct {
	common []header
	// problemPage renders a problem for a browser; nil if only API clients send requests.
	problemPage func(re responder, r *http.Request, kind problemKind, detail offer.Phrase, p problem, headers []header) *response
}

// render makes a response with the common headers. One that caches may share has a strong
// entity tag (RFC 9110 section 8.8.3).
func (re responder) render(status int, contentType, cache string, body []byte, headers ...header) *response {
	res := &response{status: status, body: body, header: make(http.Header)}
	if contentType != "" {
		headers = append(headers, header{"Content-Type", contentType}, header{"Content-Length", strconv.Itoa(len(body))})
	}
	if cache != "" {
		headers = append(headers, header{"Cache-Control", cache})
	}
	if status == http.StatusOK && cache != cacheNever && !strings.HasPrefix(cache, "private") {
		sum := sha256.Sum256(body)
		headers = append(headers, header{"Etag", `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`})
	}
	for _, h := range append(headers, re.common...) {
		if h.name == "Vary" && res.header[h.name] != nil {
			res.header[h.name][0] += ", " + h.value
		} else if h.name != "" {
			res.header[h.name] = append(res.header[h.name], h.value)
		}
	}
	return res
}

// setHeaders copies the response's headers, because other handlers of the site may edit
// values in place. Vary and Link of such handlers stay. Vary is one line, because nginx
// before 1.23 uses only the last one.
func (res *response) setHeaders(h http.Header) {
	copied := make([]string, 0, len(res.header)+1) // one allocation: Link has two values, the others one
	for name, values := range res.header {
		switch {
		case name == "Vary" && len(h[name]) > 0:
			h[name] = []string{gate.MergeList(values[0], h[name], nil)}
		case name == "Link" && len(h[name]) > 0:
			for _, value := range values {
				if !slices.Contains(h[name], value) {
					h[name] = append(h[name], value)
				}
			}
		default:
			copied = append(copied, values...)
			h[name] = slices.Clip(copied[len(copied)-len(values):])
		}
	}
}

// ServeHTTP writes the response.
func (res *response) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if res.paid == nil {
		res.write(w, r)
		return
	}
	res.paid.Serve(w, func() bool {
		res.write(w, r)
		return true
	})
}

func (res *response) write(w http.ResponseWriter, r *http.Request) {
	if res.choose != nil {
		res = res.choose(r)
	}
	// A client that has the plain form keeps it.
	cached, tag := r.Header["If-None-Match"], res.header.Get("Etag")
	if res.gzipped != nil && acceptsGzip(r.Header["Accept-Encoding"]) && !matches(cached, tag) {
		res = res.gzipped()
		tag = res.header.Get("Etag")
	}
	h := w.Header()
	res.setHeaders(h)
	if res.required != nil {
		h[headerRequired] = []string{res.required()}
	}
	if res.challenges != nil {
		h[headerChallenge] = res.challenges(h[headerChallenge])
	}
	if tag != "" && matches(cached, tag) {
		delete(h, "Content-Type")
		delete(h, "Content-Length")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.WriteHeader(res.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(res.body) // the client may have disconnected
	}
}

// responseFunc chooses the response to a request.
type responseFunc func(r *http.Request) *response

// ServeHTTP writes the response.
func (rf responseFunc) ServeHTTP(w http.ResponseWriter, r *http.Request) { rf(r).ServeHTTP(w, r) }

// matches reports whether an If-None-Match header lists an entity tag. The comparison is
// weak (RFC 9110 section 13.1.2).
func matches(lines []string, etag string) bool {
	etag = strings.TrimPrefix(etag, "W/")
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ",") {
			item = strings.TrimSpace(item)
			if item == "*" || strings.TrimPrefix(item, "W/") == etag {
				return true
			}
		}
	}
	return false
}

// document is a response with a discovery document.
func (re responder) document(d document.Document, headers ...header) *response {
	return re.compressible(d.Type, cacheDocument, d.Body, headers...)
}

// terms is a response with v as JSON, beside a page.
func (re responder) terms(v any) *response {
	return re.compressible(typeJSON, cacheLive, encode(v), varyAccept)
}

// json is a response with v as JSON.
func (re responder) json(status int, cache string, v any, headers ...header) *response {
	return re.render(status, typeJSON, cache, encode(v), headers...)
}

func encode(v any) []byte { return document.JSON(typeJSON, v).Body }

// redirect is a 302 with a link for clients that do not follow it (RFC 9110 section
// 15.4.3). It is not stored, because the target may change.
func (re responder) redirect(target string, headers ...header) *response {
	link := html.EscapeString(target)
	body := `<!doctype html><html lang="en"><title>Redirect</title><p><a href="` + link + `">` + link + "</a></p></html>\n"
	return re.render(http.StatusFound, typeHTML, cacheNever, []byte(body), append(headers, header{"Location", target})...)
}
