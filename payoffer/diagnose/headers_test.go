package diagnose

import (
	"maps"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/site"
)

// sent are the headers that the server of a test sends.
func sent() http.Header {
	return http.Header{
		"Content-Security-Policy": {"default-src 'none'"}, "Access-Control-Allow-Origin": {"*"}, "Access-Control-Expose-Headers": {"*"},
		"Cache-Control": {"no-store"}, "Referrer-Policy": {"no-referrer"}, "Server": {"Caddy"},
	}
}

// A header block that is applied last replaces the headers of the offer on each path, and nothing else notices.
func TestHeadersChangedIssue(t *testing.T) {
	for _, request := range []operator.Answer{
		{Method: http.MethodGet, Path: offer.PathMethods, Accept: "text/html"},
		{Method: http.MethodGet, Path: offer.PathOffer, Accept: "application/json"},
		{Method: http.MethodPost, Path: offer.PathSponsor, Accept: "application/json"},
	} {
		for name, c := range map[string]struct {
			change func(h http.Header)
			want   string
		}{
			"nothing":                     {func(http.Header) {}, ""},
			"a header more":               {func(h http.Header) { h.Set("Strict-Transport-Security", "max-age=1") }, ""},
			"a header that is not judged": {func(h http.Header) { h.Del("Server") }, ""},
			"a policy of the site": {func(h http.Header) { h.Set("Content-Security-Policy", "default-src 'self'") },
				`Content-Security-Policy is "default-src 'self'", and the server sent "default-src 'none'"`},
			"an origin of the site": {func(h http.Header) { h.Set("Access-Control-Allow-Origin", "https://example.org") },
				`Access-Control-Allow-Origin is "https://example.org", and the server sent "*"`},
			"headers that scripts may not read": {func(h http.Header) { h.Del("Access-Control-Expose-Headers") },
				`Access-Control-Expose-Headers is "", and the server sent "*"`},
			"a cache": {func(h http.Header) { h.Set("Cache-Control", "public, max-age=3600") },
				`Cache-Control is "public, max-age=3600", and the server sent "no-store"`},
			"a second policy": {func(h http.Header) { h.Add("Referrer-Policy", "origin") },
				`Referrer-Policy is "no-referrer, origin", and the server sent "no-referrer"`},
		} {
			t.Run(request.Path+" "+name, func(t *testing.T) {
				s := around(t)
				request.Header = sent()
				s.server.Answers = []operator.Answer{request}
				s.hosts["pay.example.org"] = func(w http.ResponseWriter, r *http.Request) {
					if r.Method == request.Method && r.URL.Path == request.Path && r.Header.Get("Accept") == request.Accept {
						maps.Copy(w.Header(), sent())
						c.change(w.Header())
					}
					s.own(w, r)
				}
				issues := Run(t.Context(), s.World, []Offer{s.offer}).Issues
				if c.want == "" {
					require.Empty(t, issues)
					return
				}
				require.Len(t, issues, 1)
				require.Equal(t, HeadersChanged.Name, issues[0].Code)
				require.Equal(t, "https://pay.example.org"+request.Path, issues[0].Subject)
				require.Contains(t, issues[0].What, c.want)
				require.Contains(t, issues[0].Fix, "'header' block")
			})
		}
	}
}

// An edited page has a style of its own, and its policy fits it.
func TestContentSecurityPolicyIssue(t *testing.T) {
	const style = "body { color: red }"
	for policy, refused := range map[string]bool{
		"":                                      false,
		"style-src " + site.Source(style):       false,
		"style-src 'self' 'unsafe-inline'":      false,
		"default-src 'self'":                    true,
		"style-src " + site.Source("something"): true,
	} {
		s := around(t)
		s.hosts["example.org"] = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Security-Policy", policy)
			_, _ = w.Write([]byte("<html><style>" + style + "</style></html>"))
		}
		if refused {
			require.Equal(t, []string{HeadersChanged.Name + " https://example.org/offer/"}, s.found(), policy)
		} else {
			require.Empty(t, s.found(), policy)
		}
	}
}
