package gate

import (
	"net/http"
	"slices"
	"strings"
)

// shared are the directives by which a shared cache may store a response (RFC 9111 section
// 5.2.2), and cdn the headers that only shared caches read (RFC 9213).
var (
	shared = []string{"public", "s-maxage", "private"}
	cdn    = []string{"Cdn-Cache-Control", "Surrogate-Control", "Cloudflare-Cdn-Cache-Control"}
)

// Vary are the request headers on which the response of a gate depends.
const Vary = "Cookie, Authorization, Payment-Signature"

// Private keeps paid content out of shared caches: it edits the headers of a response.
func Private(h http.Header) {
	h["Cache-Control"] = []string{MergeList("private", h["Cache-Control"], func(directive string) bool {
		name, _, _ := strings.Cut(directive, "=")
		return !slices.Contains(shared, strings.ToLower(strings.TrimSpace(name)))
	})}
	h["Vary"] = []string{MergeList(Vary, h["Vary"], nil)}
	for _, name := range cdn {
		delete(h, name)
	}
}

// MergeList is one line with the items of a list header after first ones, without repeated ones.
// keep, if not nil, chooses them.
func MergeList(merged string, lines []string, keep func(item string) bool) string {
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ",") {
			item = strings.TrimSpace(item)
			if item != "" && (keep == nil || keep(item)) && !strings.Contains(strings.ToLower(", "+merged+","), strings.ToLower(", "+item+",")) {
				merged += ", " + item
			}
		}
	}
	return merged
}
