package web

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAClientPrefersHTMLOnlyByNamingIt(t *testing.T) {
	const json, html = 0, 1
	for accept, want := range map[string]int{
		"":                                  json,
		"*/*":                               json,
		"application/json":                  json,
		"application/json, text/plain, */*": json,
		"text/plain":                        json,
		"image/png":                         json,
		"text/*":                            json,
		"text/html":                         html,
		"TEXT/HTML":                         html,
		"application/xhtml+xml":             html,
		browser:                             html,
		"text/html, */*":                    html,
		"*/*, text/html":                    html,
		"text/html, application/json":       html,
		"text/html;q=0.5, application/json": json,
		"application/json;q=0.5, text/html;q=0.4": json,
		"application/json;q=0.5, text/html;q=0.6": html,
		"text/html;q=0":                        json,
		"text/html;q=0.0, */*":                 json,
		"text/html;q=0.001":                    html,
		"text/html;q=0.8, */*;q=0.9":           json,
		"text/html;q=0.9, */*;q=0.8":           html,
		"text/html;q=0.5, application/*;q=0.6": json,
		"text/html;q=0.7, application/*;q=0.6": html,
		"text/html;q=2":                        json,
		"text/html;q=-1":                       json,
		"text/html;q=abc":                      json,
		"text/html;q=1.001":                    json,
		"text/html ; Q=0.3":                    html,
		"text/html;charset=utf-8":              html,
		"text/html;level=1":                    html,
		`text/html;x="a,b;q=0", */*;q=0.5`:     html,
		`text/plain;x="a,text/html"`:           json,
		"text/html;q=0.5;ext=1, */*;q=0.4":     html,
		",,, ;;; text/html":                    json,
		", ,text/html,":                        html,
		"text/htmlx, xtext/html, text / html":  json,
	} {
		require.Equal(t, want, prefer([]string{accept}, [][]string{asksJSON, asksHTML}), "Accept: %s", accept)
	}
	require.Equal(t, json, prefer(nil, [][]string{asksJSON, asksHTML}))
}

func TestNegotiatedResources(t *testing.T) {
	s := newWorld(t).server(t)
	for _, tc := range []struct{ target, accept, mediaType string }{
		{"/v1/invoice", browser, "text/html; charset=utf-8"},
		{"/v1/invoice", "text/uri-list", "text/uri-list"},
		{"/v1/invoice", "application/json", "application/json"},
		{"/v1/pay", browser, "text/html; charset=utf-8"},
		{"/v1/pay", "*/*", "application/json"},
		{"/v1/pay/transfer", browser, "text/html; charset=utf-8"},
		{"/v1/received", browser, "text/html; charset=utf-8"},
		{"/.well-known/host-meta", "application/json", "application/jrd+json"},
		{"/.well-known/host-meta", "application/xrd+xml", "application/xrd+xml"},
		{"/.well-known/host-meta", browser, "application/xrd+xml"},
	} {
		res := send(t, s, "GET", tc.target, "", "Accept", tc.accept)
		require.Equal(t, tc.mediaType, res.Header.Get("Content-Type"), "%s for %s", tc.target, tc.accept)
		require.Regexp(t, `^Accept(,|$)`, res.Header.Get("Vary"), tc.target)
	}
}

func FuzzAccept(f *testing.F) {
	for _, seed := range []string{browser, "*/*", "text/html;q=0.5, application/json;q=", `a/b;c="\`, `text/html;q="1"`, ";;,,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		variants := [][]string{asksJSON, asksHTML, asksURIs}
		got := prefer([]string{accept}, variants)
		require.Contains(t, []int{0, 1, 2}, got)
		if got != 0 {
			require.Positive(t, quality([]string{accept}, variants[got], false))
			require.GreaterOrEqual(t, quality([]string{accept}, variants[got], false), quality([]string{accept}, variants[0], true))
		}
	})
}
