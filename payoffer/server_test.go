package payoffer

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Each kind of answer, through Caddy's own server: status and media type. TestOfferLinksAnswer requests all
// links; what the bodies say is tested where they are made.
func TestPathStatusesAndMediaTypes(t *testing.T) {
	i := newInstance(t)
	standInRate(t)
	require.NoError(t, i.load(`SERVICE {
	pay_offer {
		base_url SERVICE
		site_url OTHER
		card https://checkout.example/pay
		usdc base-sepolia 0x52908400098527886E0F7030069857D2E4169EE7 {
			facilitator http://127.0.0.1:9
			rpc off
		}
		bitcoin bc1q3qxu2dmlrw6sdls82tl369t02yu543z6qlp7lj {
			rates mempool
		}
		bank_transfer pay@example.com
		storefront tip-jar https://tip-jar.example/42
		storefront pack https://pack.example/42
	}
	respond "the application" 404
}
`))
	for _, row := range []struct {
		method, path string
		status       int
		mediaType    string
	}{
		{"GET", "/.well-known/webfinger", 400, "application/problem+json"},
		{"GET", "/pay", 302, ""},
		{"GET", "/v1/offer", 402, "application/json"},
		{"POST", "/v1/quote", 402, "application/json"},
		{"GET", "/v1/pay/pack.uri", 200, "text/uri-list"},
		{"GET", "/v1/pay/btc.uri", 200, "text/uri-list"},
		{"POST", "/v1/sponsor", 402, "application/json"},
		{"POST", "/mcp", 400, "application/json"},
		{"GET", "/v1/received", 200, "application/json"},
		{"DELETE", "/v1/quote", 405, "application/problem+json"},
		{"GET", "/nothing/of/ours", 404, "text/plain"},
	} {
		t.Run(row.method+" "+row.path, func(t *testing.T) {
			got := i.do(row.method, i.service+row.path)
			require.Equal(t, row.status, got.status, got.body)
			if row.mediaType != "" {
				mediaType, _, _ := strings.Cut(got.header.Get("Content-Type"), ";")
				require.Equal(t, row.mediaType, mediaType)
			}
		})
	}
}

func TestOfferBesideOtherDirectives(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("the backend"))
	}))
	defer backend.Close()
	const directive = `	pay_offer {
		base_url SERVICE
		card https://checkout.example/pay
	}
`
	for _, c := range []struct {
		name, site, path string
		status           int
		body             string
	}{
		{"try_files", "\troot FOLDER\n\ttry_files {path} /index.html\n\trespond {uri}", "/app", 200, "/index.html"},
		{"basic_auth", "\tbasic_auth {\n\t\tuser $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n\t}", "/app", 401, ""},
		{"handle", "\thandle {\n\t\trespond \"handled\"\n\t}", "/app", 200, "handled"},
		{"route", "\troute {\n\t\trespond \"routed\"\n\t}", "/app", 200, "routed"},
		{"redir", "\tredir /old /new", "/old", 302, ""},
		{"encode", "\tencode gzip\n\trespond \"encoded\"", "/app", 200, "encoded"},
		{"reverse_proxy", "\treverse_proxy " + backend.Listener.Addr().String(), "/app", 200, "the backend"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := newInstance(t)
			require.NoError(t, os.WriteFile(filepath.Join(i.folder, "index.html"), nil, 0o600))
			require.NoError(t, i.load("SERVICE {\n"+directive+strings.ReplaceAll(c.site, "FOLDER", i.folder)+"\n}\n"))

			ours := i.get(i.service + "/v1/quote")
			require.Equal(t, http.StatusPaymentRequired, ours.status)
			require.Contains(t, ours.body, "checkout.example")

			theirs := i.get(i.service + c.path)
			require.Equal(t, c.status, theirs.status)
			require.Equal(t, c.body, theirs.body)
		})
	}
}

func TestOfferInRouteWithMatcher(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(`SERVICE {
	route {
		@offer not path /package.json
		pay_offer @offer {
			base_url SERVICE
			card https://checkout.example/pay
		}
		respond "the application"
	}
}
`))
	require.Equal(t, http.StatusPaymentRequired, i.get(i.service+"/v1/quote").status)
	require.Equal(t, "the application", i.get(i.service+"/package.json").body)
}

// The site host serves the embedded page with the values of the offer.
func TestSiteHostServesOfferPage(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(strings.Replace(smallest, "card", "site_url OTHER\n\t\tname \"A <b> name\"\n\t\tcard", 1)+`OTHER {
	pay_offer_page
	respond 404
}
`))

	page := i.get(i.other + "/offer/")

	require.Equal(t, http.StatusOK, page.status)
	require.Contains(t, page.header.Get("Content-Type"), "text/html")
	require.Contains(t, page.body, "https://checkout.example/pay")
	require.Contains(t, page.body, i.service+"/v1/pay")
	require.Contains(t, page.body, "A &lt;b&gt; name")
	require.NotContains(t, page.body, "payOffer")
	require.Contains(t, page.header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
	require.Equal(t, "nosniff", page.header.Get("X-Content-Type-Options"))
	require.Equal(t, "no-referrer", page.header.Get("Referrer-Policy"))
	require.Equal(t, []string{"Accept-Language, Accept-Encoding"}, page.header.Values("Vary"))
	german := i.get(i.other + "/offer/?lang=de")
	require.Equal(t, "de", german.header.Get("Content-Language"))
	require.Contains(t, german.body, i.service+"/v1/pay?lang=de#usdc\"><strong>USDC auf Base")
	require.Equal(t, http.StatusNotFound, i.get(i.other+"/nothing").status)
	require.Equal(t, http.StatusNotFound, i.get(i.other+"/v1/quote").status)
}

func TestOfferPageIsCompressed(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(strings.Replace(smallest, "card", "site_url OTHER\n\t\tcard", 1)+"OTHER {\n\tpay_offer_page\n}\n"))
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, i.other+"/offer/", nil))(t)
	request.Header.Set("Accept-Encoding", "gzip")
	response := must(i.client.Do(request))(t)
	defer response.Body.Close()
	require.Equal(t, "gzip", response.Header.Get("Content-Encoding"))
	read := must(io.ReadAll(must(gzip.NewReader(response.Body))(t)))(t)
	require.Equal(t, i.get(i.other+"/offer/").body, string(read))
}

// Two offers on one server are told apart by the site, and their pages by the
// host of the request.
func TestTwoOffersOnOneServer(t *testing.T) {
	i := newInstance(t)
	page := func(origin, name string) string {
		return origin + ` {
	pay_offer {
		base_url ` + origin + `
		name "` + name + `"
		card https://checkout.example/` + name + `
	}
	route /name {
		templates {
			mime text/plain
			extensions {
				pay_offer
			}
		}
		respond "{{"{{"}}(payOffer .Req).Name{{"}}"}}"
	}
}
`
	}
	sites := strings.NewReplacer(`{{"{{"}}`, "{{", `{{"}}"}}`, "}}").Replace(page("SERVICE", "first") + page("OTHER", "second"))
	require.NoError(t, i.load(sites))

	require.Contains(t, i.get(i.service+"/v1/quote").body, "https://checkout.example/first")
	require.Contains(t, i.get(i.other+"/v1/quote").body, "https://checkout.example/second")
	require.Equal(t, "first", i.get(i.service+"/name").body)
	require.Equal(t, "second", i.get(i.other+"/name").body)
}

func TestConflictingOffersAreRefused(t *testing.T) {
	i := newInstance(t)
	second := func(options string) string {
		return smallest + "OTHER {\n\tpay_offer {\n" + options + "\t\tcard https://checkout.example/other\n\t}\n}\n"
	}
	const samePayee = "\t\tusdc base-sepolia 0x52908400098527886E0F7030069857D2E4169EE7 {\n\t\t\tfacilitator http://127.0.0.1:9\n\t\t\trpc off\n\t\t}\n"

	require.ErrorContains(t, i.load(second("\t\tbase_url SERVICE\n")), "two offers have the id")
	require.ErrorContains(t, i.load(second("\t\tbase_url OTHER\n"+samePayee)), "both receive money at the account of usdc")
	require.NoError(t, i.load(second("\t\tbase_url OTHER\n")))
}

// The page is served beside an application that would answer every path, and the
// application is not changed by it.
func TestOfferPageBesideApplication(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("the application at " + r.URL.Path + " " + r.Method + r.Header.Get("Range")))
	}))
	t.Cleanup(app.Close)
	for name, directives := range map[string]string{
		"try_files":     "root * /srv\n\ttry_files {path} /index.php\n\treverse_proxy " + app.URL + "\n\tpay_offer_page",
		"reverse_proxy": "reverse_proxy " + app.URL + "\n\tpay_offer_page",
		"handle":        "@offer path /offer /offer/*\n\thandle @offer {\n\t\tpay_offer_page\n\t}\n\thandle {\n\t\treverse_proxy " + app.URL + "\n\t}",
		"encode":        "encode\n\tpay_offer_page\n\treverse_proxy " + app.URL,
		"errors":        "pay_offer_page\n\treverse_proxy " + app.URL + "\n\thandle_errors {\n\t\trespond \"sorry: {err.status_code}\"\n\t}",
		"basic_auth":    "basic_auth /admin/* {\n\t\ta $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n\t}\n\tpay_offer_page\n\treverse_proxy " + app.URL,
	} {
		t.Run(name, func(t *testing.T) {
			i := newInstance(t)
			require.NoError(t, i.load(strings.Replace(smallest, "card", "site_url OTHER\n\t\tcard", 1)+"OTHER {\n\t"+directives+"\n}\n"))

			page := i.get(i.other + "/offer/?lang=en")
			require.Equal(t, http.StatusOK, page.status)
			require.Contains(t, page.body, i.service+"/v1/pay")
			require.Equal(t, http.StatusPermanentRedirect, i.get(i.other+"/offer").status)
			missing := i.get(i.other + "/offer/none")
			require.Equal(t, http.StatusNotFound, missing.status)
			if name == "errors" {
				require.Equal(t, "sorry: 404", missing.body)
			}
			require.Contains(t, i.get(i.other+"/shop").body, "the application at ")
			require.Contains(t, i.get(i.other+"/offers").body, "the application at ")
		})
	}
}

// Behind a proxy that sends another Host, the only offer has its page nevertheless.
func TestOfferPageOfOnlyOfferIgnoresHost(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(strings.Replace(smallest, "card", "site_url http://localhost:1\n\t\tcard", 1)+"OTHER {\n\tpay_offer_page\n}\n"))
	require.Contains(t, i.get(i.other+"/offer/").body, i.service+"/v1/pay")
}

func TestOfferPageTakesNoArguments(t *testing.T) {
	for _, directive := range []string{"pay_offer_page /shop", "pay_offer_page {\n\t\tname x\n\t}"} {
		_, _, err := adaptAny("http://localhost:8403 {\n\t" + directive + "\n}\n")
		require.ErrorContains(t, err, "pay_offer_page takes no arguments and no block")
	}
}

// TestDocsSnippetsLinkToServedPaths requests every address of the blocks that sellers
// copy to other sites.
func TestDocsSnippetsLinkToServedPaths(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	for _, b := range blocks(t, "markdown", "html") {
		paths := regexp.MustCompile(`https://pay\.example\.org(/[^)"]*)`).FindAllStringSubmatch(b.Text, -1)
		require.NotEmpty(t, paths, b.at)
		for _, path := range paths {
			require.Equal(t, http.StatusOK, i.get(i.service+path[1]).status, path[1])
		}
		require.Equal(t, strings.Count(b.Text, "://"), strings.Count(b.Text, "https://pay.example.org/v1/pay"), b.at)
	}
}

// Caddy's encode compresses nothing twice, and keeps the ETag.
func TestEncodeLeavesCompressedDocumentsUnchanged(t *testing.T) {
	i := newInstance(t)
	in := strings.Replace(smallest, "\tpay_offer {", "\troute {\n encode zstd gzip\n pay_offer {", 1)
	in = strings.Replace(in, "\trespond", "}\nrespond", 1)
	config, _, err := adaptAny(i.caddyfile(in))
	require.NoError(t, err)
	require.NoError(t, caddy.Load([]byte(config), true))
	get := func(headers http.Header) *http.Response {
		request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, i.service+offer.PathOpenAPI, nil))(t)
		request.Header = headers
		response := must(i.client.Do(request))(t)
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	compressed := get(http.Header{"Accept-Encoding": {"gzip"}})
	require.Equal(t, "gzip", compressed.Header.Get("Content-Encoding"))
	reader := must(gzip.NewReader(compressed.Body))(t)
	read := must(io.ReadAll(reader))(t)
	require.Equal(t, i.get(i.service+offer.PathOpenAPI).body, string(read))
	again := get(http.Header{"Accept-Encoding": {"gzip"}, "If-None-Match": compressed.Header["Etag"]})
	require.Equal(t, http.StatusNotModified, again.StatusCode)
}

// adapt turns a Caddyfile into JSON. Its name in errors is Caddyfile.
func adapt(t *testing.T, caddyfile string) (string, error) {
	t.Helper()
	result, warnings, err := adaptAny(caddyfile)
	if err == nil {
		require.Empty(t, warnings)
	}
	return result, err
}

// adaptAny is adapt for a Caddyfile that 'caddy fmt' did not see.
func adaptAny(caddyfile string) (string, []caddyconfig.Warning, error) {
	result, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	return string(result), warnings, err
}

// Each file holds a Caddyfile and, below a line of hyphens, the JSON or the
// error of 'caddy validate'; -update writes the errors.
func TestCaddyfileAdaptsAsWritten(t *testing.T) {
	// What {$NAME} holds is part of the configuration; what {env.NAME} holds
	// must never be.
	t.Setenv("OFFER_TEST_VISIBLE", "visible name")
	t.Setenv("OFFER_TEST_HIDDEN", "hidden-secret")
	t.Setenv("OFFER_TEST_EMPTY", "")
	files := must(filepath.Glob("testdata/adapt/*.caddyfiletest"))(t)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".caddyfiletest"), func(t *testing.T) {
			content := must(os.ReadFile(file))(t)
			caddyfile, want, found := strings.Cut(string(content), "\n----------\n")
			require.True(t, found, "no line of hyphens")
			want = strings.TrimSpace(want)

			got, err := adapt(t, caddyfile+"\n")
			if err == nil && !strings.HasPrefix(want, "{") {
				err = caddy.Validate(decode(t, got))
			}
			if *update && err != nil && !strings.HasPrefix(want, "{") {
				want = err.Error()
				require.NoError(t, os.WriteFile(file, []byte(caddyfile+"\n----------\n"+want+"\n"), 0o644))
			}

			require.NotContains(t, got, "hidden-secret")
			if strings.HasPrefix(want, "{") {
				require.NoError(t, err)
				require.JSONEq(t, want, got)
				return
			}
			require.EqualError(t, err, want, "run 'go test ./payoffer -run CaddyfileAdapts -update'")
		})
	}
}
