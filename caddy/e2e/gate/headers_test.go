package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
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

const behindProxy = `
http://site.localhost:{PORT} {
	route {
		request_header -X-Paid
		pay_offer_gate {
			access 48h
			{CHARGE}
		}
		reverse_proxy {BACKEND} {
			header_up X-Paid "{http.pay_offer.payment}|{http.pay_offer.rail}|{http.pay_offer.payer}|{http.pay_offer.expires}"
		}
	}
}
`

// In the request that pays, the payment has no id before its charge.
func TestBackendGetsPayerNotCredentials(t *testing.T) {
	t.Parallel()
	for _, charge := range []string{"", "charge first"} {
		t.Run(charge, func(t *testing.T) { learnsWhoPaid(t, charge) })
	}
}

func learnsWhoPaid(t *testing.T, charge string) {
	b := startBackend(t)
	s := openStore(t, behindProxy, nil, "{BACKEND}", b.URL, "{CHARGE}", charge)
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
	_, uri := read(payer.get("/page?a=1&pay_offer=forged&b=2"))
	require.Equal(t, "/page?a=1&b=2", uri, "a code is removed")
	paid, uri := read(payer.send(http.MethodPost, "/page?a=1&pay_offer=forged&b=2", forged...))
	require.Equal(t, []string{"pi_backend", "card", ""}, paid[:3])
	require.Equal(t, "/page?a=1&b=2", uri)
	expires := lab.Must(time.Parse(time.RFC3339, paid[3]))(t)
	require.WithinDuration(t, time.Now().Add(48*time.Hour), expires, time.Hour)

	header := s.payment()
	agent := s.visitor()
	paid, _ = read(agent.do(http.MethodPost, s.site+"/api?x=1", "the body", header))
	again, _ := read(agent.get("/api", forged...))
	require.Regexp(t, `^eip155:84532:0x[0-9a-f]{40}:0x[0-9a-f]{64}$`, again[0])
	require.Equal(t, "usdc", again[1])
	require.Equal(t, strings.Split(again[0], ":")[2], strings.ToLower(again[2]))
	if charge == "" {
		require.Equal(t, []string{"", "usdc", strings.ToLower(again[2]), ""}, paid)
	} else {
		require.Equal(t, again, paid, "the same payment by its cookie")
	}
	options := s.visitor().send(http.MethodOptions, "/api?pay_offer=forged", append(forged, "Payment-Signature", s.payment().Get("Payment-Signature"))...)
	require.Equal(t, http.StatusOK, options.Status)
	require.Empty(t, options.Body, "nobody paid for it")

	requireTerms(t, s.visitor().get("/page", forged...), "a stranger")
	_, _ = s.visitor().get("/page?pay_offer=forged", forged...), s.visitor().get("/page", "X-Payment", "e30=")
	require.Equal(t, http.StatusOK, s.visitor().do(http.MethodGet, s.site+"/once", "", s.payment()).Status)

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
	}
}

// A header directive stands before the gate, which corrects it, unless it is deferred: then it has the last word.
func TestPaidContentIsPrivate(t *testing.T) {
	t.Parallel()
	b := startBackend(t)
	s := openStore(t, strings.Replace(behindProxy, "{CHARGE}", "", 1)+`
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
func TestErrorRoutesServeNoGatedFile(t *testing.T) {
	t.Parallel()
	s := openStore(t, `
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

// Two instances have one database and one storage: what happens at one is valid at the other.
func TestTwoInstancesOpenAndCloseTogether(t *testing.T) {
	t.Parallel()
	database := postgres.Start(t)
	s := openStore(t, `
http://site.localhost:{PORT} {
	root {ROOT}
	pay_offer_gate {
		start {SITE}/
	}
	file_server
	handle_errors {
		file_server
	}
}
`, map[string]string{"index.html": secret}, "{LEDGER}", `postgres "`+database.DSN(t)+`"`)
	second := payoffertest.FreePort(t)
	s.start(second)

	receipt := s.sell("instances")
	v, other := s.visitor(), s.visitorAt(second)
	_, a := v.enter(receipt)
	require.Equal(t, secret, a.Body)
	v.move(second)
	require.Equal(t, secret, v.get("/").Body, "entered at the first, a pass at the second")
	_, a = other.enter(receipt)
	require.Equal(t, secret, a.Body)
	other.move(s.port)
	require.Equal(t, secret, other.get("/").Body, "entered at the second, a pass at the first")

	// Half of the way in at each: a code of one instance is used at the other, once.
	a = v.do(http.MethodGet, receipt+"/enter", "", nil)
	third := s.visitor()
	require.Equal(t, http.StatusSeeOther, third.do(http.MethodGet, a.Header.Get("Location"), "", nil).Status)
	requireTerms(t, s.visitorAt(second).do(http.MethodGet, a.Header.Get("Location"), "", nil), "a code twice")

	a = s.visitor().do(http.MethodPost, receipt+"/sign-out", "", nil)
	require.Less(t, a.Status, 400, a.Body)
	requireTerms(t, other.get("/"), "the instance of the sign-out")
	requireTerms(t, third.get("/"), "the instance of the sign-out")
	server.Eventually(t, "the sign-out closes the other instance", func() bool { return v.get("/").Status == http.StatusPaymentRequired })
	_, a = v.enter(receipt)
	require.Equal(t, secret, a.Body, "the payer can enter again")

	// Without the database, the instance that knows the browser keeps the gate open.
	unknown := s.entered("unknown")
	database.Stop(t)
	unknown.move(second)
	require.Equal(t, secret, v.get("/").Body)
	a = unknown.get("/")
	require.Equal(t, http.StatusServiceUnavailable, a.Status)
	require.NotContains(t, a.Body, secret, "no error route serves the file")
	require.NotEmpty(t, a.Header.Get("Retry-After"))
	require.Equal(t, []string{"no-store"}, a.Header.Values("Cache-Control"))
	requireTerms(t, s.visitor().get("/"), "a stranger")
	database.Start(t)
	server.Eventually(t, "the gate opens again", func() bool { return unknown.get("/").Body == secret })
}

// Configurations of Varnish: its own, and one that stores every success for an hour, whatever Cache-Control or the cookies
// of the request say. Only Vary keeps that one from a leak.
var caches = map[string]string{
	"as installed": "",
	"greedy": `
sub vcl_recv { return (hash); }
sub vcl_backend_response {
	if (beresp.status < 400) {
		unset beresp.http.Set-Cookie;
		set beresp.ttl = 1h;
		return (deliver);
	}
}
`,
}

// startVarnish runs Varnish in front of the shop until the test ends, and returns its port.
func (s *store) startVarnish(configuration string) string {
	s.Helper()
	program := skip.Program(s, "Varnish", "varnishd", "/usr/sbin/varnishd")
	dir, port := s.TempDir(), payoffertest.FreePort(s)
	vcl := filepath.Join(dir, "default.vcl")
	text := fmt.Sprintf("vcl 4.1;\nbackend default { .host = \"127.0.0.1\"; .port = %q; }\n%s", s.port, configuration)
	require.NoError(s, os.WriteFile(vcl, []byte(text), 0o644))
	command := exec.Command(program, "-F", "-j", "none", "-n", filepath.Join(dir, "work"), "-a", "127.0.0.1:"+port, "-f", vcl, "-s", "malloc,64m")
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	require.NoError(s, command.Start())
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // how it ended is in the log
		close(ended)
	}()
	s.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		<-ended
		if s.Failed() {
			s.Logf("Varnish wrote:\n%s", &log)
		}
	})
	v := s.visitorAt(port)
	server.Eventually(s, "Varnish answers", func() bool {
		a, err := server.Do(v.client, http.MethodGet, s.base+"/v1/received", "", nil)
		return err == nil && a.Status == http.StatusOK
	})
	return port
}

// A cache between the payers and the gate gives nobody else what they paid for.
func TestCacheLeaksNoPaidContent(t *testing.T) {
	t.Parallel()
	skip.Full(t, "tests with Varnish")
	for name, configuration := range caches {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, `
http://site.localhost:{PORT} {
	root {ROOT}
	header /public/* Cache-Control "public, max-age=3600, s-maxage=3600"
	pay_offer_gate
	file_server
}
`, map[string]string{"a.txt": secret, "public/a.txt": secret, "b.txt": secret, "public/b.txt": secret, "index.html": secret})
			payer := s.entered("cached")
			port := s.startVarnish(configuration)
			payer.move(port)
			requests := 0
			for _, target := range []string{"/a.txt", "/public/a.txt", "/b.txt", "/public/b.txt"} {
				strangers := func() {
					t.Helper()
					for _, headers := range [][]string{
						nil, {"Cookie", "a=b"}, {"Cookie", "pay_offer_00000000=forged"}, {"Payment-Signature", "forged"}, {"Authorization", "Payment forged"},
						{"Range", "bytes=0-3"}, {"If-None-Match", "*"}, {"Accept", "text/html"}, {"Accept-Encoding", "gzip"}, {"Cache-Control", "only-if-cached"},
					} {
						for _, method := range []string{http.MethodGet, http.MethodHead} {
							a := s.visitorAt(port).send(method, target, headers...)
							require.GreaterOrEqual(t, a.Status, 400, "%s %s %v", method, target, headers)
							require.NotContains(t, a.Body, secret[:4], "%s %s %v", method, target, headers)
							requests++
						}
					}
				}
				if strings.HasSuffix(target, "a.txt") { // else the payer comes first
					strangers()
				}
				for range 3 {
					require.Equal(t, secret, payer.get(target).Body, "what strangers got does not close the gate")
				}
				_, hit, _ := strings.Cut(payer.get(target).Header.Get("X-Varnish"), " ")
				require.Equal(t, name == "greedy", hit != "", "whether Varnish stored the response")
				require.Equal(t, secret[:4], payer.get(target, "Range", "bytes=0-3").Body)
				payment := s.payment()
				agent := s.visitorAt(port)
				require.Equal(t, secret, agent.do(http.MethodGet, s.site+target, "", payment).Body)
				strangers()
				require.Equal(t, secret, payer.get(target).Body)
			}
			t.Logf("%d requests without a pass", requests)
			require.Equal(t, 4, s.charged())
		})
	}
}
