package web

import (
	"net/http"
	"strings"
)

// varyAccept stands on every variant of a negotiated resource (RFC 9110
// section 12.5.5).
var varyAccept = header{"Vary", "Accept"}

// variant is one representation of a resource: the media types under which a
// client asks for it, and the answer.
type variant struct {
	types []string
	http.Handler
}

// Media types under which clients ask for a representation.
var (
	asksJSON = []string{"application/json"}
	asksJRD  = []string{"application/json", "application/jrd+json"}
	asksXRD  = []string{"application/xrd+xml", "application/xml", "text/xml"}
	asksHTML = []string{"text/html", "application/xhtml+xml"}
	asksURIs = []string{"text/uri-list"}
	// asksProblem is for errors, which are JSON by a name of their own.
	asksProblem = []string{"application/json", "application/problem+json"}
)

// negotiate serves the variant that the request prefers; the first is the
// default.
func negotiate(variants ...variant) http.HandlerFunc {
	types := make([][]string, len(variants))
	for i, v := range variants {
		types[i] = v.types
	}
	return func(w http.ResponseWriter, r *http.Request) {
		variants[prefer(r.Header["Accept"], types)].ServeHTTP(w, r)
	}
}

// prefer chooses among variants, each given by its media types, by the lines
// of an Accept header (RFC 9110 section 12.5.1). The first variant is for
// programs and the default. Another is chosen only when one of its types is
// listed by name, for "*/*" is what a program sends, with a quality above zero
// that is at least the default's; the highest wins, and the earlier of equals.
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

// Precedence of a media range that matches a type. A range with parameters of
// its own asks for something more special than what we send, so it counts
// where the bare type is not listed.
const (
	matchNone = iota
	matchAll
	matchMain
	matchParameters
	matchExact
)

// quality is the highest quality in thousandths that the Accept lines give to
// one of types, 0 for refused or not listed. Wildcards count on request.
func quality(accept, types []string, wildcards bool) (best int) {
	for _, mediaType := range types {
		match, q := matchNone, 0
		for _, line := range accept {
			for line != "" {
				var item string
				item, line = cut(line, ',')
				m, itemQ := weigh(item, mediaType)
				if m > match && (wildcards || m >= matchParameters) {
					match, q = m, itemQ
				}
			}
		}
		best = max(best, q)
	}
	return best
}

// weigh says how precisely one media range matches a type, and its quality in
// thousandths. A range that is not well-formed matches nothing.
func weigh(item, mediaType string) (match, q int) {
	item, parameters := cut(item, ';')
	item = strings.Trim(item, " \t")
	main, _, _ := strings.Cut(mediaType, "/")
	switch {
	case strings.EqualFold(item, mediaType):
		match = matchExact
	case item == "*/*":
		match = matchAll
	case len(item) == len(main)+2 && strings.EqualFold(item[:len(main)], main) && item[len(main):] == "/*":
		match = matchMain
	default:
		return matchNone, 0
	}
	q = 1000
	for parameters != "" {
		var parameter string
		parameter, parameters = cut(parameters, ';')
		name, value, _ := strings.Cut(strings.Trim(parameter, " \t"), "=")
		switch {
		case strings.EqualFold(name, "q"):
			var ok bool
			if q, ok = thousandths(value); !ok {
				return matchNone, 0
			}
			return match, q // what follows are extensions, not parameters
		case match == matchExact && name != "" && !strings.EqualFold(name, "charset"):
			match = matchParameters
		}
	}
	return match, q
}

// cut splits s at the first separator outside of a quoted string.
func cut(s string, separator byte) (before, after string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case !quoted && s[i] == separator:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// thousandths reads a qvalue: "0" or "1" and up to three decimals, at most 1.
func thousandths(s string) (int, bool) {
	if s == "" || len(s) > 5 || (s[0] != '0' && s[0] != '1') || (len(s) > 1 && s[1] != '.') {
		return 0, false
	}
	q := int(s[0]-'0') * 1000
	for i, unit := 2, 100; i < len(s); i, unit = i+1, unit/10 {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		q += int(s[i]-'0') * unit
	}
	return q, q <= 1000
}
