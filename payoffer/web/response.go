package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Values of Cache-Control.
const (
	// cacheDocument is for what only a new configuration changes.
	cacheDocument = "public, max-age=300"
	// cacheLive is for what the rate changes: keep it, but ask whether the
	// entity tag still holds.
	cacheLive = "no-cache"
	// cacheNever is for quotes, redirects, errors and receipts.
	cacheNever = "no-store"
	// cacheForever is for what its own address identifies.
	cacheForever = "public, max-age=31536000, immutable"
)

// Media types of answers.
const (
	typeHTML    = "text/html; charset=utf-8"
	typeJSON    = "application/json"
	typePNG     = "image/png"
	typeProblem = "application/problem+json"
)

// response is a whole response, made before the request it answers, but for a
// problem.
type response struct {
	status int
	body   []byte
	etag   string
	// single are headers that replace what stands there, added those that
	// stand beside what another handler of the site has set. Their values
	// follow each other in values.
	single []string
	added  []additions
	values []string
	// challenges, if it is not nil, appends the values of WWW-Authenticate, which are
	// new in each answer.
	challenges func(values []string) []string
	// zipped, if it is not nil, keeps the response compressed.
	zipped *zipped
	// choose, if it is not nil, makes what is answered instead of all but the status.
	choose func(r *http.Request) *response
}

// additions are the values of one header that may repeat.
type additions struct {
	name string
	n    int
}

// header is one header of a response in canonical form.
type header struct{ name, value string }

// responder makes responses that share headers.
type responder struct {
	common []header
	// explained makes the page of a problem; nil where only programs come.
	explained func(re responder, r *http.Request, kind problemKind, detail offer.Phrase, p problem, headers []header) *response
}

// render makes a response with the shared headers. Cache is the value of
// Cache-Control; one that may be stored carries a strong entity tag (RFC
// 9110 section 8.8.3).
func (re responder) render(status int, contentType, cache string, body []byte, headers ...header) *response {
	res := &response{status: status, body: body}
	if contentType != "" {
		headers = append(headers, header{"Content-Type", contentType}, header{"Content-Length", strconv.Itoa(len(body))})
	}
	if cache != "" {
		headers = append(headers, header{"Cache-Control", cache})
	}
	if status == http.StatusOK && cache != cacheNever && !strings.HasPrefix(cache, "private") {
		sum := sha256.Sum256(body)
		res.etag = `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
		headers = append(headers, header{"Etag", res.etag})
	}
	res.header(append(headers, re.common...))
	return res
}

// header lays out headers for setHeaders.
func (res *response) header(headers []header) {
	for _, h := range headers {
		if h.name != "Vary" && h.name != "Link" {
			res.single, res.values = append(res.single, h.name), append(res.values, h.value)
		}
	}
	res.add("Vary", headers)
	res.add("Link", headers)
}

func (res *response) add(name string, headers []header) {
	n := 0
	for _, h := range headers {
		if h.name == name {
			res.values = append(res.values, h.value)
			n++
		}
	}
	if n > 0 {
		res.added = append(res.added, additions{name, n})
	}
}

// setHeaders sets the response's headers. The values are copied, in one
// allocation, because other handlers of the site may edit header values in
// place.
func (res *response) setHeaders(h http.Header) {
	values := slices.Clone(res.values)
	for i, name := range res.single {
		h[name] = values[i : i+1 : i+1]
	}
	values = values[len(res.single):]
	for _, add := range res.added {
		if own := values[:add.n:add.n]; len(h[add.name]) == 0 {
			h[add.name] = own
		} else {
			h[add.name] = appendNew(h[add.name], own)
		}
		values = values[add.n:]
	}
}

// appendNew appends the values that are not there yet.
func appendNew(values, more []string) []string {
	for _, value := range more {
		if !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}

// ServeHTTP writes the response.
func (res *response) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if res.choose != nil {
		res = res.choose(r)
	}
	if res.zipped != nil {
		res = res.suited(r.Header)
	}
	h := w.Header()
	res.setHeaders(h)
	if res.challenges != nil {
		h[headerChallenge] = res.challenges(h[headerChallenge])
	}
	if res.etag != "" && matches(r.Header["If-None-Match"], res.etag) {
		delete(h, "Content-Type")
		delete(h, "Content-Length")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.WriteHeader(res.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(res.body) // the client may have gone
	}
}

// answer chooses the response to a request.
type answer func(r *http.Request) *response

// ServeHTTP writes the response.
func (a answer) ServeHTTP(w http.ResponseWriter, r *http.Request) { a(r).ServeHTTP(w, r) }

// matches reports whether an If-None-Match header lists etag (RFC 9110 section
// 13.1.2: the comparison is weak).
func matches(lines []string, etag string) bool {
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
	return re.kept(d.Type, cacheDocument, d.Body, headers...)
}

// terms serves v as JSON that only a new configuration changes.
func (re responder) terms(v any) *response {
	return re.kept(typeJSON, cacheDocument, encode(v), varyAccept)
}

// json is a response with v as JSON. The types of this package always marshal.
func (re responder) json(status int, cache string, v any, headers ...header) *response {
	return re.render(status, typeJSON, cache, encode(v), headers...)
}

// compact is v as JSON on one line, for what programs ask for again and again.
func compact(v any) []byte {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("web: " + err.Error()) // the types of this package always marshal
	}
	return bytes.Clone(body.Bytes())
}

func encode(v any) []byte { return document.JSON(typeJSON, v).Body }

// redirect is a 302 with a small page for a client that does not follow it
// (RFC 9110 section 15.4.3). It is never stored, for the target may change.
func (re responder) redirect(target string, headers ...header) *response {
	link := html.EscapeString(target)
	body := `<!doctype html><html lang="en"><title>Redirect</title><p><a href="` + link + `">` + link + "</a></p></html>\n"
	return re.render(http.StatusFound, typeHTML, cacheNever, []byte(body), append(headers, header{"Location", target})...)
}
