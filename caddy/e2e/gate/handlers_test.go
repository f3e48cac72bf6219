package gate

import (
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
)

// handlers are sites with other directives of Caddy inside and around a gate. Each host is the name of its site.
const handlers = `
(gate) {
	pay_offer_gate {
		start http://{args[0]}.localhost:{PORT}/
	}
}
(gzip) {
	encode gzip {
		minimum_length 1
	}
}
http://upstream.localhost:{PORT} {
	import gate upstream
	reverse_proxy {APP}
}
http://stream.localhost:{PORT} {
	import gate stream
	reverse_proxy {APP} {
		flush_interval -1
	}
}
http://files.localhost:{PORT} {
	root {ROOT}
	import gate files
	file_server
}
http://encode-inside.localhost:{PORT} {
	root {ROOT}
	import gate encode-inside
	import gzip
	file_server
}
http://encode-outside.localhost:{PORT} {
	root {ROOT}
	route {
		import gzip
		import gate encode-outside
		file_server
	}
}
http://encode-upstream.localhost:{PORT} {
	import gate encode-upstream
	import gzip
	reverse_proxy {APP} {
		flush_interval -1
	}
}
http://templates.localhost:{PORT} {
	root {ROOT}
	import gate templates
	templates
	file_server
}
http://intercept.localhost:{PORT} {
	import gate intercept
	intercept {
		@ok status 200
		handle_response @ok {
			header X-Content "` + secret + `"
			respond "intercepted ` + secret + `"
		}
	}
	reverse_proxy {APP}
}
http://handle-response.localhost:{PORT} {
	import gate handle-response
	reverse_proxy {APP} {
		@ok status 200
		handle_response @ok {
			header X-Handled "` + secret + `"
			copy_response_headers
			copy_response
		}
		@missing status 404
		handle_response @missing {
			respond "the application's own error" 404
		}
	}
}
http://accelerated.localhost:{PORT} {
	import gate accelerated
	reverse_proxy {APP} {
		@file header X-Accel-Redirect *
		handle_response @file {
			root {ROOT}
			rewrite {rp.header.X-Accel-Redirect}
			file_server
		}
	}
}
http://errors.localhost:{PORT} {
	root {ROOT}
	import gate errors
	file_server
	handle_errors {
		@missing expression {err.status_code} == 404
		respond @missing "the application's own error" 404
		file_server
	}
}
http://defer-inside.localhost:{PORT} {
	route {
		import gate defer-inside
		header {
			X-Deferred "` + secret + `"
			?X-Default "` + secret + `"
			Set-Cookie "site=` + secret + `"
			defer
		}
		reverse_proxy {APP}
	}
}
http://defer-outside.localhost:{PORT} {
	header {
		X-Content "^(.*)$" "changed $1"
		-Server
		defer
	}
	import gate defer-outside
	reverse_proxy {APP}
}
`

// page is what the file page.html has.
var page = `{{placeholder "http.pay_offer.rail"}} ` + secret + strings.Repeat(" and more", 200)

// sites are the names of the sites of handlers, with the content of their pages.
var sites = map[string]string{
	"upstream": secret, "stream": secret, "files": page, "encode-inside": page, "encode-outside": page, "encode-upstream": secret,
	"templates": strings.Replace(page, `{{placeholder "http.pay_offer.rail"}}`, "usdc", 1), "intercept": "intercepted " + secret,
	"handle-response": secret, "accelerated": page, "errors": page, "defer-inside": secret, "defer-outside": secret,
}

// plain is the body of an answer before its encoding.
func (s *shop) plain(a answer) answer {
	s.Helper()
	require.NoError(s, a.err)
	if a.Header.Get("Content-Encoding") == "gzip" {
		text := lab.Must(io.ReadAll(lab.Must(gzip.NewReader(strings.NewReader(a.Body)))(s)))(s)
		a.Body = string(text)
	}
	return a
}

// names are the names of the headers of an answer that say something of its content.
func names(a answer) (all []string) {
	for name := range a.Header {
		if !slices.Contains([]string{"Content-Encoding", "Content-Length", "Connection", "Date", "Server"}, name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// A paid page is whole, what does not exist is not charged, and after a refused charge nothing of the content comes out:
// whatever the directives inside and around the gate do, by HTTP/1.1 and HTTP/2.
func TestGateWithOtherDirectives(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "page.html"), []byte(page), 0o600))
	s := openShop(t, handlers, "{ROOT}", root)
	s.app.on("/page.html", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Host, "accelerated.") {
			w.Header().Set("X-Accel-Redirect", "/page.html")
			w.Header().Set("X-Content", secret)
			return
		}
		w.Header().Set("Trailer", "X-Sum")
		answers(http.StatusOK)(w, r)
		_ = http.NewResponseController(w).Flush()
		w.Header().Set("X-Sum", secret)
		w.Header().Set(http.TrailerPrefix+"X-Late", secret)
	})
	s.app.on("/missing.html", answers(http.StatusNotFound))
	var refusal []string
	for protocol, client := range clients {
		for site, content := range sites {
			t.Run(site+", "+protocol, func(t *testing.T) {
				s, url := s.in(t), s.url(site, "/page.html")
				pays := func(url string, p *payment) answer {
					header := s.v2(p)
					header.Set("Accept-Encoding", "gzip")
					return s.plain(s.send(t.Context(), client, http.MethodGet, url, header))
				}
				refused := s.sign(url)
				s.facilitator.fail(refused, refuses)
				a := pays(url, refused)
				require.Equal(t, http.StatusServiceUnavailable, a.Status, a.Body)
				s.requireNoContent(a)
				if refusal == nil {
					refusal = names(a)
				}
				require.Equal(t, refusal, names(a), "the refusals of all sites have the same headers")

				p := s.sign(url)
				a = pays(s.url(site, "/missing.html"), p)
				require.Equal(t, http.StatusNotFound, a.Status, a.Body)
				require.NotContains(t, a.Body, secret)
				require.Nil(t, pass(a))
				require.Empty(t, confirmation(a))
				require.Zero(t, s.facilitator.settles(p))
				for range 2 {
					a = pays(url, p)
					require.Equal(t, http.StatusOK, a.Status, a.Body)
					require.Equal(t, content, a.Body)
					require.Equal(t, 1, s.facilitator.settles(p))
					require.Equal(t, strings.HasPrefix(site, "encode-"), a.Header.Get("Content-Encoding") == "gzip")
				}
				if content == secret && site != "handle-response" {
					require.Contains(t, a.Header.Get("X-Content"), secret)
					require.Equal(t, http.Header{"X-Sum": {secret}, "X-Late": {secret}}, a.trailer)
				}
			})
		}
	}
}
