package site

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// backend is an application behind the gate. It remembers the requests that it gets.
type backend struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

func startBackend(t *testing.T) *backend {
	b := new(backend)
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.seen = append(b.seen, r.Clone(t.Context()))
		b.mu.Unlock()
		w.Header()["Cache-Control"] = []string{"public, max-age=60", "S-MaxAge=600"}
		w.Header()["Vary"] = []string{"Accept-Language", "cookie"}
		w.Header().Set("Cdn-Cache-Control", "max-age=600")
		w.Header().Set("Surrogate-Control", "max-age=600")
		_ = json.NewEncoder(w).Encode(map[string]any{"secret": secret, "paid": r.Header["X-Paid"], "uri": r.RequestURI, "cookie": r.Header["Cookie"]})
	}))
	t.Cleanup(b.Close)
	return b
}

// requests are those since the last call.
func (b *backend) requests() []*http.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := b.seen
	b.seen = nil
	return seen
}

const proxied = `
http://site.localhost:{PORT} {
	route {
		request_header -X-Paid
		pay_offer_gate {
			access 48h
		}
		reverse_proxy {BACKEND} {
			header_up X-Paid "{http.pay_offer.payment}|{http.pay_offer.rail}|{http.pay_offer.payer}|{http.pay_offer.expires}"
		}
	}
}
`

func TestTheBackendLearnsWhoPaidAndNoCredentials(t *testing.T) {
	b := startBackend(t)
	s := openShop(t, proxied, nil, "{BACKEND}", b.URL)
	read := func(a server.Answer) (paid []string, uri string) {
		t.Helper()
		require.Equal(t, http.StatusOK, a.Status, a.Body)
		var body struct {
			Paid []string
			URI  string
		}
		require.NoError(t, json.Unmarshal([]byte(a.Body), &body))
		require.Len(t, body.Paid, 1)
		return strings.Split(body.Paid[0], "|"), body.URI
	}
	forged := []string{"X-Paid", "pi_forged|card||", "Cookie", "session=1; theme=dark", "Authorization", "Basic YW5uOnNlY3JldA=="}

	payer := s.entered("backend")
	require.Equal(t, "/page?a=1&b=2", payer.get("/page?a=1&pay_offer=forged&b=2").Header.Get("Location"), "a code is removed")
	paid, uri := read(payer.send(http.MethodPost, "/page?a=1&pay_offer=forged&b=2", forged...))
	require.Equal(t, []string{"pi_backend", "card", ""}, paid[:3])
	require.Equal(t, "/page?a=1&b=2", uri)
	expires, err := time.Parse(time.RFC3339, paid[3])
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(48*time.Hour), expires, time.Hour)

	header := s.payment()
	agent := s.visitor()
	paid, _ = read(agent.do(http.MethodPost, s.site+"/api?x=1", "the body", header))
	require.Regexp(t, `^eip155:84532:0x[0-9a-f]{40}:0x[0-9a-f]{64}$`, paid[0])
	require.Equal(t, "usdc", paid[1])
	require.Equal(t, strings.Split(paid[0], ":")[2], strings.ToLower(paid[2]))
	again, _ := read(agent.get("/api", forged...))
	require.Equal(t, paid, again, "the same payment by its cookie")
	options := s.visitor().send(http.MethodOptions, "/api?pay_offer=forged", append(forged, "Payment-Signature", s.payment().Get("Payment-Signature"))...)
	require.Equal(t, http.StatusOK, options.Status)
	require.Empty(t, options.Body, "nobody paid for it")

	requireTerms(t, s.visitor().get("/page", forged...), "a stranger")
	_, _ = s.visitor().get("/page?pay_offer=forged", forged...), s.visitor().get("/page", "X-Payment", "e30=")
	require.Equal(t, http.StatusOK, s.visitor().do(http.MethodGet, s.site+"/once", "", s.payment()).Status)

	checks := 0
	for _, r := range b.requests() {
		text := r.Method + " " + r.RequestURI
		require.NotContains(t, r.RequestURI, "pay_offer", text)
		for _, name := range []string{"Payment-Signature", "X-Payment"} {
			require.Empty(t, r.Header.Values(name), text)
		}
		for name, values := range r.Header {
			require.NotContains(t, strings.Join(values, " "), "{", text+" "+name)
			require.NotContains(t, strings.Join(values, " "), "pay_offer_", text+" "+name)
			require.NotContains(t, strings.Join(values, " "), "forged", text+" "+name)
		}
		if cookies := r.Header.Values("Cookie"); len(cookies) > 0 {
			require.Equal(t, []string{"session=1; theme=dark"}, cookies, text)
			require.Equal(t, "Basic YW5uOnNlY3JldA==", r.Header.Get("Authorization"), text)
		}
		if r.Method == http.MethodHead {
			checks++
			require.Equal(t, []string{"|||"}, r.Header.Values("X-Paid"), text)
			require.Zero(t, r.ContentLength)
		}
	}
	require.Equal(t, 3, checks, "before two quotes and before the GET that was charged")
}

// A header directive stands before the gate, which corrects it, unless it is deferred: then it has the last word.
func TestPaidContentIsPrivate(t *testing.T) {
	b := startBackend(t)
	s := openShop(t, proxied+`
http://header.localhost:{PORT} {
	header Cache-Control "public, s-maxage=600, max-age=60"
	header Vary Accept-Language
	pay_offer_gate {
		start http://header.localhost:{PORT}/
	}
	respond "`+secret+`"
}
http://deferred.localhost:{PORT} {
	header {
		Cache-Control "public, max-age=60"
		defer
	}
	pay_offer_gate {
		start http://deferred.localhost:{PORT}/
	}
	respond "`+secret+`"
}
`, nil, "{BACKEND}", b.URL)
	for name, want := range map[string]struct{ cache, vary string }{
		"site":     {"private, max-age=60", "Cookie, Authorization, Payment-Signature, Accept-Language"},
		"header":   {"private, max-age=60", "Cookie, Authorization, Payment-Signature, Accept-Language"},
		"deferred": {"public, max-age=60", "Cookie, Authorization, Payment-Signature"},
	} {
		v, site := s.visitor(), strings.Replace(s.site, "site.", name+".", 1)
		terms := v.do(http.MethodGet, site+"/", "", nil)
		if name != "deferred" {
			requireTerms(t, terms, name)
		}
		require.Equal(t, http.StatusPaymentRequired, terms.Status)
		require.NotContains(t, terms.Body, secret)
		paid := v.do(http.MethodGet, site+"/", "", s.payment())
		require.NotEmpty(t, paid.Header.Get("Payment-Response"))
		for what, a := range map[string]server.Answer{
			"with the payment": paid, "with the cookie": v.do(http.MethodGet, site+"/", "", nil), "HEAD": v.do(http.MethodHead, site+"/", "", nil),
			"POST": v.do(http.MethodPost, site+"/", "", nil),
		} {
			require.Equal(t, http.StatusOK, a.Status, name)
			require.Equal(t, []string{want.cache}, a.Header.Values("Cache-Control"), "%s: %s", name, what)
			require.Equal(t, []string{want.vary}, a.Header.Values("Vary"), "%s: %s", name, what)
			require.Empty(t, a.Header.Get("Cdn-Cache-Control")+a.Header.Get("Surrogate-Control"), name)
		}
	}
}

// An error route that only serves files serves the file that was asked for, whatever the error. No error of a gate may
// lead there.
func TestErrorRoutesDoNotServeTheFile(t *testing.T) {
	s := openShop(t, `
http://site.localhost:{PORT} {
	root {ROOT}
	pay_offer_gate
	file_server
	handle_errors {
		file_server
	}
}
`, map[string]string{"a.txt": secret})
	v, count := s.visitor(), 0
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, "PROPFIND", "TRACE"} {
		for _, headers := range [][]string{
			nil, {"Payment-Signature", "forged"}, {"X-Payment", "e30="}, {"Authorization", "Payment e30"}, {"Cookie", "pay_offer_00000000=x"},
			{"Accept", "text/html"}, {"Upgrade", "websocket", "Connection", "upgrade"}, {"Range", "bytes=9-1"}, {"If-Match", `"none"`},
		} {
			for _, target := range []string{"/a.txt", "/a.txt?pay_offer=forged", "/a.txt/", "/./a.txt", "//a.txt", "/none"} {
				a := v.send(method, target, headers...)
				require.GreaterOrEqual(t, a.Status, 300, "%s %s %v", method, target, headers)
				require.NotContains(t, a.Body, secret, "%s %s %v", method, target, headers)
				count++
			}
		}
	}
	t.Logf("%d requests without a pass", count)
}
