package web

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/payoffer/caddy-pay-offer/payoffer/page"
)

// A shape is what a page is: its elements with their attributes, in order, each
// with its depth; and apart from them its texts.
type shape struct {
	elements []string
	texts    string
}

// inert are the attributes whose value does nothing, beside those for our scripts.
var inert = []string{"d", "viewBox", "content", "title", "alt", "aria-label", "value", "datetime"}

// schemes are those of our links.
var schemes = []string{"", "https", "mailto", "ethereum", "bitcoin"}

// shapeOf is the shape of a page, of which nothing runs but what its policy names.
// Of an attribute that does something the value is part of the shape; of a link, where
// it leads.
func shapeOf(t *testing.T, w *httptest.ResponseRecorder) (s shape) {
	t.Helper()
	document := must(html.Parse(strings.NewReader(w.Body.String())))(t)
	policy := w.Header().Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'; ")
	require.NotContains(t, policy, "unsafe")
	require.Contains(t, policy, "; frame-ancestors 'none'")
	inlined := 0
	var texts strings.Builder
	for n := range document.Descendants() {
		depth := strings.Repeat(" ", len(slices.Collect(n.Ancestors())))
		switch n.Type {
		case html.ElementNode:
			s.elements = append(s.elements, depth+n.Data+attributes(t, n, &texts))
			if n.Data == "script" || n.Data == "style" {
				if n.FirstChild == nil { // a file of ours
					require.Equal(t, page.WalletPath, attribute(n, "src"))
					require.Contains(t, policy, " 'self'; connect-src 'self'")
					continue
				}
				if attribute(n, "type") == "" {
					inlined++
				}
				inline(t, n, policy, &texts)
			}
		case html.TextNode:
			if parent := n.Parent.Data; parent != "script" && parent != "style" {
				texts.WriteString(n.Data + "\n")
			}
		default:
			s.elements = append(s.elements, depth+"<!"+n.Data)
		}
	}
	require.Equal(t, inlined, strings.Count(policy, "'sha256-"), "the policy allows nothing else")
	s.texts = texts.String()
	return s
}

// attributes are those of an element as its shape has them.
func attributes(t *testing.T, n *html.Node, texts *strings.Builder) (all string) {
	t.Helper()
	for _, a := range n.Attr {
		require.False(t, strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "srcdoc" || a.Key == "http-equiv", a.Key)
		switch {
		case a.Key == "href" || a.Key == "src":
			u, err := url.Parse(a.Val)
			require.NoError(t, err, a.Val)
			require.Contains(t, schemes, u.Scheme, a.Val)
			require.True(t, a.Key == "href" || u.Scheme == "" && u.Host == "", "a page loads from its own host alone: %s", a.Val)
			all += " " + a.Key + "=" + u.Scheme + "://" + u.Host
		case slices.Contains(inert, a.Key) || strings.HasPrefix(a.Key, "data-"):
			texts.WriteString(a.Val + "\n")
			all += " " + a.Key
		default:
			all += " " + a.Key + "=" + a.Val
		}
	}
	return all
}

// inline holds a script or a style to the policy. A script of a JSON type is data,
// which nobody runs.
func inline(t *testing.T, n *html.Node, policy string, texts *strings.Builder) {
	t.Helper()
	source := n.FirstChild.Data
	for _, a := range n.Attr {
		if a.Key == "type" && strings.HasSuffix(a.Val, "json") {
			require.True(t, json.Valid([]byte(source)), source)
			require.NotContains(t, source, "<")
			if a.Val == "application/ld+json" { // beside it, the catalogue's own
				texts.WriteString(source + "\n")
			}
			return
		}
	}
	sum := sha256.Sum256([]byte(source))
	require.Contains(t, policy, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
}
