package web

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
)

// rows are the paths of docs/developing/decisions.md and of docs/reference/http-api.md.
var rows = []struct {
	method, target string
	status         int
	mediaType      string
	location       string
}{
	{"GET", "/.well-known/host-meta.json", 200, "application/jrd+json", ""},
	{"GET", "/.well-known/did.json", 200, "application/did+json", ""},
	{"GET", "/.well-known/nodeinfo", 200, "application/json", ""},
	{"GET", "/.well-known/webfinger?resource=acct:pay@pay.example.org", 200, "application/jrd+json", ""},
	{"GET", "/humans.txt", 200, "text/plain", ""},
	{"GET", "/.well-known/security.txt", 200, "text/plain", ""},
	{"GET", "/package.json", 200, "application/json", ""},
	{"GET", "/pay", 302, "text/html", checkout},
	{"GET", "/v1/offer", 402, "application/json", ""},
	{"POST", "/v1/offer", 402, "application/json", ""},
	{"GET", "/v1/quote", 402, "application/json", ""},
	{"POST", "/v1/quote", 402, "application/json", ""},
	{"GET", "/v1/invoice", 200, "application/json", ""},
	{"GET", "/skills/pay/SKILL.md", 200, "text/markdown", ""},
	{"GET", "/v1/pay/card.png", 302, "text/html", "/v1/qr/card/"},
	{"GET", "/v1/pay/card.uri", 200, "text/uri-list", ""},
	{"GET", "/v1/pay/usdc.png", 302, "text/html", "/v1/qr/usdc/"},
	{"GET", "/v1/pay/usdc.uri", 200, "text/uri-list", ""},
	{"GET", "/v1/pay/tip-jar.uri", 200, "text/uri-list", ""},
	{"GET", "/v1/pay/tip-jar.png", 302, "text/html", "/v1/qr/tip-jar/"},
	{"GET", "/v1/pay/pack.uri", 200, "text/uri-list", ""},
	{"GET", "/v1/pay/transfer.uri", 200, "text/uri-list", ""},
	{"GET", "/v1/pay/btc.uri", 200, "text/uri-list", ""},
	{"GET", "/v1/pay/btc.png", 302, "text/html", "/v1/qr/btc/"},
	{"POST", "/v1/sponsor", 402, "application/json", ""},
	{"GET", "/v1/sponsor", 200, "application/json", ""},
	{"POST", "/mcp", 200, "application/json", ""},
	{"GET", "/v1/received", 200, "application/json", ""},
	{"GET", "/v1/received?after=0", 200, "application/json", ""},
	{"GET", "/v1/pay/transfer", 200, "application/json", ""},
	{"GET", "/v1/pay", 200, "application/json", ""},
	{"GET", "/.well-known/host-meta", 200, "application/xrd+xml", ""},
	{"GET", "/did.json", 200, "application/did+json", ""},
	{"GET", "/nodeinfo/2.1", 200, "application/json", ""},
	{"GET", "/security.txt", 302, "text/html", baseURL + "/.well-known/security.txt"},
	{"GET", "/.well-known/agent-card.json", 200, "application/json", ""},
	{"GET", "/.well-known/agent.json", 200, "application/json", ""},
	{"GET", "/openapi.json", 200, "application/json", ""},
	{"GET", "/.well-known/x402", 200, "application/json", ""},
	{"GET", "/.well-known/x402.json", 200, "application/json", ""},
	{"GET", "/llms.txt", 200, "text/", ""},
	{"GET", "/.well-known/api-catalog", 200, "application/linkset+json", ""},
	{"GET", "/favicon.svg", 200, "image/svg+xml", ""},
	{"GET", "/favicon.ico", 200, "image/vnd.microsoft.icon", ""},
	{"GET", "/apple-touch-icon.png", 200, "image/png", ""},
	{"GET", "/v1/pay/preview.png", 200, "image/png", ""},
	{"GET", "/v1/pay/button.svg", 200, "image/svg+xml", ""},
	{"GET", "/v1/pay/badge.svg", 200, "image/svg+xml", ""},
}

func TestRoutesRespond(t *testing.T) {
	s := newWorld(t).server(t)
	for _, row := range rows {
		t.Run(row.method+" "+row.target, func(t *testing.T) {
			res := send(t, s, row.method, row.target, "")
			body := read(t, res)
			require.Equal(t, row.status, res.StatusCode)
			require.True(t, strings.HasPrefix(res.Header.Get("Content-Type"), row.mediaType), res.Header.Get("Content-Type"))
			require.True(t, strings.HasPrefix(res.Header.Get("Location"), row.location), res.Header.Get("Location"))
			require.NotEmpty(t, body)
			require.Equal(t, "*", res.Header.Get("Access-Control-Allow-Origin"))
			require.Equal(t, "*", res.Header.Get("Access-Control-Expose-Headers"))
			require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"))
			require.Equal(t, `<`+checkout+`>; rel="payment"; type="text/html"`, res.Header.Values("Link")[0])
			require.Equal(t, `</openapi.json>; rel="service-desc"; type="application/json"`, res.Header.Values("Link")[1])
		})
	}
}

// dropToken removes the token of the quote, which differs in every response.
func dropToken(headers ...http.Header) {
	for _, h := range headers {
		if value := h.Get("PAYMENT-REQUIRED"); value != "" {
			h.Set("PAYMENT-REQUIRED", value[:len(value)-44])
		}
	}
}

func TestHEADEqualsGETWithoutBody(t *testing.T) {
	s := newWorld(t).server(t)
	for _, row := range rows {
		if row.method != http.MethodGet {
			continue
		}
		get, head := send(t, s, "GET", row.target, ""), send(t, s, "HEAD", row.target, "")
		dropToken(get.Header, head.Header)
		require.Equal(t, get.StatusCode, head.StatusCode, row.target)
		require.Equal(t, get.Header, head.Header, row.target)
		require.Empty(t, read(t, head), row.target)
		require.Len(t, read(t, get), int(get.ContentLength), row.target)
	}
}

func TestRoutesMethodsAndPreflight(t *testing.T) {
	s := newWorld(t).server(t)
	allow := map[string]string{"/mcp": "POST, OPTIONS"}
	for _, path := range []string{"/v1/offer", "/v1/quote", "/v1/sponsor", "/v1/pay/lightning"} {
		allow[path] = "GET, HEAD, POST, OPTIONS"
	}
	for _, route := range served(s) {
		want := allow[route.path]
		if want == "" {
			want = "GET, HEAD, OPTIONS"
		}
		res := send(t, s, "DELETE", route.path, "")
		require.Equal(t, 405, res.StatusCode, route.path)
		require.Equal(t, want, res.Header.Get("Allow"))
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
		require.Equal(t, "urn:pay-offer:problem:method-not-allowed", readJSON(t, res)["type"])

		res = send(t, s, "OPTIONS", route.path, "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST")
		require.Equal(t, 204, res.StatusCode, route.path)
		require.Equal(t, want, res.Header.Get("Access-Control-Allow-Methods"))
		origins := "*"
		if strings.HasPrefix(route.path, "/v1/receipt/") { // it is private
			origins = ""
		}
		require.Equal(t, origins, res.Header.Get("Access-Control-Allow-Origin"))
		for _, name := range []string{"PAYMENT-SIGNATURE", "X-PAYMENT", "Content-Type", "Access-Control-Expose-Headers", "Mcp-Protocol-Version"} {
			require.Contains(t, res.Header.Get("Access-Control-Allow-Headers"), name)
		}
		require.NotEmpty(t, res.Header.Get("Access-Control-Max-Age"))
	}
	require.Equal(t, 405, send(t, s, "GET", "/mcp", "").StatusCode)
	require.Equal(t, "no-store", send(t, s, "POST", "/mcp", "").Header.Get("Cache-Control"))
}

func TestOtherPathsGoToNextHandler(t *testing.T) {
	s := newWorld(t).server(t)
	for _, path := range []string{"/", "/v1", "/v1/", "/pay/", "/V1/offer", "/v1/payer", "/v1/sponsor/", "/v1/qr", "/.well-known/"} {
		w := httptest.NewRecorder()
		require.False(t, s.Serve(w, httptest.NewRequest("GET", path, nil)), path)
		require.Empty(t, w.Header(), path)
		require.Empty(t, w.Body.String(), path)
	}
}

// A printed code may outlive its rail, and an empty 200 of Caddy would tell nobody.
func TestUnknownPayPathIs404(t *testing.T) {
	s := newWorld(t).server(t)
	for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
		for _, path := range []string{"/v1/pay/", "/v1/pay/card", "/v1/pay/none.uri", "/v1/pay/none.png", "/v1/pay/transfer/", "/v1/pay/%2e%2e/x"} {
			res := send(t, s, method, path, "")
			require.Equal(t, 404, res.StatusCode, path)
			require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
			if method != "HEAD" {
				body := readJSON(t, res)
				require.Equal(t, "urn:pay-offer:problem:not-found", body["type"])
				require.Contains(t, body["detail"], baseURL+"/v1/pay.")
			}
		}
	}
}

func TestRoutesMatchOpenAPI(t *testing.T) {
	card := must(offer.NewCard(checkout, nil, 42_00))(t)
	cardAlone := must(offer.New(terms(), card))(t)
	for name, change := range map[string]func(*world) (hooks []string){
		"every rail":     func(*world) []string { return nil },
		"the card alone": func(w *world) []string { w.offer, w.accepts = cardAlone, nil; return nil },
		"every hook":     func(w *world) []string { w.hooks = allHooks(new(receiver)); return []string{"card", "pack", "tip-jar"} },
		"the card's hook": func(w *world) []string {
			w.hooks = map[string]observe.Hook{"card": new(receiver)}
			return []string{"card"}
		},
		"the storefronts' hooks": func(w *world) []string {
			w.hooks = map[string]observe.Hook{"tip-jar": new(receiver), "pack": new(receiver)}
			return []string{"pack", "tip-jar"}
		},
	} {
		w := newWorld(t)
		hooks := change(w)
		s := w.server(t)
		published := read(t, send(t, s, "GET", "/openapi.json", ""))
		require.Equal(t, string(OpenAPI(w.offer, hooks...).Body), published, name)
		var api struct{ Paths map[string]map[string]any }
		require.NoError(t, json.Unmarshal([]byte(published), &api))
		var described []path
		for at, operations := range api.Paths {
			for method := range operations {
				described = append(described, path{strings.ToUpper(method), at})
			}
		}
		require.ElementsMatch(t, described, served(s), name)
	}
}

// ownLink finds addresses of the service host in any published text.
var ownLink = regexp.MustCompile(regexp.QuoteMeta(baseURL) + `/[A-Za-z0-9_./~%?=&:@{}-]*`)

func TestPublishedLinksResolve(t *testing.T) {
	s := newWorld(t).server(t)
	seen := map[string]bool{}
	check := func(from, link string) {
		link = strings.TrimRight(link, ".,;:")
		if seen[link] || strings.ContainsAny(link, "{}") {
			return
		}
		seen[link] = true
		require.True(t, serves(t, s, link), "%s links to %s, which nobody serves", from, link)
	}
	for _, row := range rows {
		for _, accept := range []string{"*/*", browser} {
			body := read(t, send(t, s, row.method, row.target, "", "Accept", accept))
			for _, link := range ownLink.FindAllString(body, -1) {
				check(row.target, link)
			}
			for _, match := range regexp.MustCompile(`(?:href|src)="(/[^"#]*)`).FindAllStringSubmatch(body, -1) {
				check(row.target, baseURL+match[1])
			}
		}
	}
	require.Greater(t, len(seen), 20)
}

func TestSiteHeadersAreKept(t *testing.T) {
	s := newWorld(t).server(t)
	w := httptest.NewRecorder()
	w.Header().Set("Link", "</style.css>; rel=preload")
	w.Header()["Vary"] = []string{"Accept-Encoding", "Cookie"}
	require.True(t, s.Serve(w, httptest.NewRequest("GET", "/v1/invoice", nil)))
	require.Len(t, w.Header().Values("Link"), 3)
	require.Equal(t, []string{"Accept, Accept-Encoding, Cookie"}, w.Header().Values("Vary"))
}

func TestHeaderValuesAreNotSharedBetweenRequests(t *testing.T) {
	s := newWorld(t).server(t)
	first := send(t, s, "GET", "/humans.txt", "")
	for _, values := range first.Header {
		values[0] = "changed in place by another handler"
	}
	second := send(t, s, "GET", "/humans.txt", "")
	for name, values := range second.Header {
		require.NotContains(t, values[0], "changed", name)
	}
	_, _ = io.Copy(io.Discard, second.Body)
}

func TestPayPageWalletScript(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	pay := send(t, s, "GET", "/v1/pay", "", "Accept", browser)
	hash := sha256.Sum256([]byte(page.WalletScript))
	loaded := `<script type="module" src="` + page.WalletPath + `" integrity="sha256-` + base64.StdEncoding.EncodeToString(hash[:]) + `"></script>`
	require.Contains(t, html.UnescapeString(read(t, pay)), loaded)
	require.Contains(t, pay.Header.Get("Content-Security-Policy"), "; img-src 'self' data:;", "wallets have icons")
	require.Contains(t, send(t, s, "GET", "/v1/received", "", "Accept", browser).Header.Get("Content-Security-Policy"), "; img-src 'self';")
	res := send(t, s, "GET", page.WalletPath, "")
	require.Equal(t, "text/javascript; charset=utf-8", res.Header.Get("Content-Type"))
	require.Equal(t, cacheForever, res.Header.Get("Cache-Control"))
	require.Equal(t, page.WalletScript, read(t, res))

	w.offer = must(offer.New(terms(), w.offer.Card))(t)
	s = w.server(t)
	require.NotContains(t, read(t, send(t, s, "GET", "/v1/pay", "", "Accept", browser)), "<script src=")
	require.False(t, serves(t, s, page.WalletPath))
}
