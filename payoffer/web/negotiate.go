package web

import (
	"net/http"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// varyAccept is a header of every variant of a negotiated resource (RFC 9110 section 12.5.5).
var varyAccept = header{"Vary", "Accept"}

// variant is one representation of a resource, and the media types that ask for it.
type variant struct {
	types []string
	http.Handler
}

// Media types that ask for a representation.
var (
	asksJSON    = []string{"application/json"}
	asksJRD     = []string{"application/json", "application/jrd+json"}
	asksXRD     = []string{"application/xrd+xml", "application/xml", "text/xml"}
	asksHTML    = []string{"text/html", "application/xhtml+xml"}
	asksURIs    = []string{"text/uri-list"}
	asksProblem = []string{"application/json", "application/problem+json"}
)

// negotiate serves the variant that the request prefers; the first is the default.
func negotiate(variants ...variant) http.HandlerFunc {
	types := make([][]string, len(variants))
	for i, v := range variants {
		types[i] = v.types
	}
	return func(w http.ResponseWriter, r *http.Request) {
		variants[prefer(r.Header["Accept"], types)].ServeHTTP(w, r)
	}
}

// prefer returns the index of the preferred variant (RFC 9110 section 12.5.1). The first,
// for API clients, is the default. Another one needs a media type that the client names,
// with at least the default's quality: "*/*" is what API clients send.
func prefer(accept []string, variants [][]string) int {
	if len(accept) == 0 {
		return 0
	}
	chosen, best := 0, quality(accept, variants[0], true)
	for i, types := range variants[1:] {
		q := quality(accept, types, false)
		if q > best || (q == best && q > 0 && chosen == 0) {
			chosen, best = i+1, q
		}
	}
	return chosen
}

// quality is the highest quality of a media type in the lines of an Accept header, 0 if
// none is listed. The most specific media range decides; wildcards count on request.
func quality(accept, types []string, wildcards bool) (best float64) {
	for _, mediaType := range types {
		family, _, _ := strings.Cut(mediaType, "/")
		specificity, q := 0, 0.0
		for _, line := range accept {
			for item := range strings.SplitSeq(line, ",") {
				mediaRange, parameters, _ := strings.Cut(item, ";")
				mediaRange = strings.TrimSpace(mediaRange)
				s := 0
				switch {
				case strings.EqualFold(mediaRange, mediaType):
					s = 3
				case wildcards && strings.EqualFold(mediaRange, family+"/*"):
					s = 2
				case wildcards && mediaRange == "*/*":
					s = 1
				}
				if s > specificity {
					specificity, q = s, weight(parameters)
				}
			}
		}
		best = max(best, q)
	}
	return best
}

// weight is the quality among the parameters of a media range, 1 without one.
func weight(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		if name, _, _ := strings.Cut(strings.TrimSpace(parameter), "="); strings.EqualFold(name, "q") {
			return text.Quality(parameter)
		}
	}
	return 1
}
