package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// accepts are what browsers and programs accept.
var accepts = []string{browser, "text/html", "application/json", "text/uri-list", "*/*", ""}

// targets are the paths of the route table that answer GET, but the templates.
func targets(s *Server) (all []string) {
	for _, row := range table(s.Offer) {
		if row.Method == "GET" && !strings.Contains(row.Path, "{") {
			all = append(all, row.Path)
		}
	}
	return all
}

// getPage is the answer to a GET as a page in a language or what else is accepted.
func getPage(s *Server, target, accept, language string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", target, nil)
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Language", language)
	w := httptest.NewRecorder()
	s.Serve(w, r)
	return w
}

// isPage says that an answer is a page for people.
func isPage(w *httptest.ResponseRecorder) bool {
	return w.Code != 302 && strings.HasPrefix(w.Header().Get("Content-Type"), "text/html")
}

// tree is a page, read.
func tree(t *testing.T, w *httptest.ResponseRecorder) *html.Node {
	t.Helper()
	return must(html.Parse(strings.NewReader(w.Body.String())))(t)
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// A page depends on what its reader accepts and in which language, and tells caches
// so; what programs read is the same in all of them.
func TestAcceptLanguageChangesOnlyPages(t *testing.T) {
	s, pages := newWorld(t).server(t), 0
	for _, target := range targets(s) {
		for _, accept := range accepts {
			var english []byte
			for _, l := range text.Languages {
				w := getPage(s, target, accept, l.Tag+"-XX, xx;q=0.9")
				vary, body := strings.Join(w.Header().Values("Vary"), ", "), w.Body.Bytes()
				if !isPage(w) {
					require.NotContains(t, vary, "Accept-Language", target)
					require.Empty(t, w.Header().Get("Content-Language"), target)
					if english == nil {
						english = body
					}
					require.Equal(t, english, body, target)
					continue
				}
				pages++
				require.Equal(t, "Accept, Accept-Language", strings.TrimSuffix(vary, ", Accept-Encoding"), target)
				require.Equal(t, l.Tag, w.Header().Get("Content-Language"), target)
				for n := range tree(t, w).Descendants() {
					if n.Type == html.ElementNode && n.Data == "html" {
						require.Equal(t, l.Tag, attribute(n, "lang"), target)
					}
				}
				r := httptest.NewRequest("GET", target, nil)
				r.Header = map[string][]string{"Accept": {accept}, "Accept-Language": {l.Tag}, "If-None-Match": {w.Header().Get("Etag")}}
				if again := httptest.NewRecorder(); w.Header().Get("Etag") != "" {
					s.Serve(again, r)
					require.Equal(t, 304, again.Code, target)
					require.Equal(t, w.Header().Values("Vary"), again.Header().Values("Vary"), target)
				}
				require.NotEqual(t, english, body, target)
			}
		}
	}
	require.GreaterOrEqual(t, pages, len(pageTargets)*len(text.Languages)*2)
}

// A language that was chosen stays chosen on the way through the pages, and to choose
// another leads to the same page.
func TestChosenLanguageStaysInLinks(t *testing.T) {
	w := newWorld(t)
	for id := int64(9); id > 0; id-- {
		w.receipts = append(w.receipts, ledger.Receipt{ID: id, ExternalID: "r"})
	}
	s := w.server(t)
	for _, path := range append(targets(s), "/v1/received?before=7&limit=2&x=1") {
		at := must(url.Parse(baseURL + path))(t)
		for _, chosen := range []string{"", "fr"} {
			query := at.Query()
			if chosen != "" {
				query.Set("lang", chosen)
			}
			w := getPage(s, at.Path+"?"+query.Encode(), browser, "de")
			if !isPage(w) {
				continue
			}
			query.Del("x") // which is nobody's
			switches := 0
			for n := range tree(t, w).Descendants() {
				if n.Data != "a" && n.Data != "link" {
					continue
				}
				link := must(at.Parse(attribute(n, "href")))(t)
				language := link.Query().Get("lang")
				switch {
				case n.Data == "link":
					require.True(t, attribute(n, "rel") == "alternate" || language == "" || language == chosen, link)
				case attribute(n, "hreflang") != "":
					query.Set("lang", attribute(n, "hreflang"))
					require.Equal(t, at.Path, link.Path)
					require.Equal(t, query, link.Query())
					switches++
				case link.Host == at.Host && isPage(getPage(s, link.RequestURI(), browser, "de")):
					require.Equal(t, chosen, language, "%s leads to %s", path, link)
				}
			}
			require.Equal(t, len(text.Languages), switches, path)
		}
	}
}

// maxPage is how many bytes a page may have without its images.
const maxPage = 46 << 10

// maxWire is how many compressed bytes the payment page may have with its wallet script and the code of its open row.
const maxWire = 24 << 10

func TestPayPageIsSmallOnTheWire(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	for _, l := range text.Languages {
		chooser := fetch(s, "GET", "/v1/pay?lang="+l.Tag, "Accept", browser, "Accept-Encoding", "gzip")
		size := chooser.Body.Len()
		code := regexp.MustCompile(`/v1/qr/btc/[^"]+`).FindString(unpacked(t, chooser))
		for _, target := range []string{page.WalletPath, code} {
			part := fetch(s, "GET", target, "Accept-Encoding", "gzip")
			require.Equal(t, 200, part.Code, target)
			size += part.Body.Len()
		}
		require.LessOrEqual(t, size, maxWire, l.Name)
	}
}

func TestPagesAreSmallInEveryLanguage(t *testing.T) {
	w := newWorld(t)
	for id := int64(21); id > 0; id-- {
		w.receipts = append(w.receipts, ledger.Receipt{
			ID: id, ExternalID: "eip155:8453:0x" + strings.Repeat("9f", 32) + ":0", Rail: "usdc", Asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
			Amount: 42_000_000, USDCents: cents(42_00), Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelChain,
		})
	}
	s := w.server(t)
	for _, target := range targets(s) {
		for _, l := range text.Languages {
			page := getPage(s, target+"?lang="+l.Tag, browser, "")
			if !isPage(page) {
				continue
			}
			var small bytes.Buffer
			compressor := gzip.NewWriter(&small)
			must(compressor.Write(page.Body.Bytes()))(t)
			require.NoError(t, compressor.Close())
			t.Logf("%s in %s: %d bytes, %d compressed", target, l.Name, page.Body.Len(), small.Len())
			require.LessOrEqual(t, page.Body.Len(), maxPage, "%s in %s", target, l.Name)
			require.Less(t, small.Len(), page.Body.Len()/2, "%s in %s", target, l.Name)
		}
	}
}

// unpacked is the content of an answer, whatever its coding.
func unpacked(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	var from io.Reader = w.Body
	switch coding := w.Header().Get("Content-Encoding"); coding {
	case "gzip":
		r := must(gzip.NewReader(w.Body))(t)
		from = r
	default:
		require.Empty(t, coding)
	}
	content := must(io.ReadAll(from))(t)
	return string(content)
}

// fetch is a request with headers given as name and value in turn; empty ones are not
// sent.
func fetch(s *Server, method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	s.Serve(w, r)
	return w
}

// Every path in every representation is the same in each coding, and who has it in one
// that it takes is not sent it again.
func TestGzipContentIsIdentical(t *testing.T) {
	s := newWorld(t).server(t)
	compressed := map[string]bool{}
	for _, target := range targets(s) {
		if target == offer.PathReceived { // changes with each request
			continue
		}
		for _, accept := range accepts {
			plain := fetch(s, "GET", target, "Accept", accept)
			got := fetch(s, "GET", target, "Accept", accept, "Accept-Encoding", "gzip")
			dropToken(plain.Header(), got.Header())
			what := target + " " + accept
			require.Equal(t, plain.Code, got.Code, what)
			require.Equal(t, got.Body.Len(), int(got.Result().ContentLength), what)
			size, tag := got.Body.Len(), got.Header().Get("Etag")
			require.Equal(t, plain.Body.String(), unpacked(t, got), what)

			head := fetch(s, "HEAD", target, "Accept", accept, "Accept-Encoding", "gzip")
			dropToken(head.Header())
			require.Equal(t, got.Header(), head.Header(), what)
			require.Zero(t, head.Body.Len(), what)
			require.Equal(t, plain.Header()["Vary"], got.Header()["Vary"], what)

			if got.Header().Get("Content-Encoding") == "" {
				require.Equal(t, plain.Header(), got.Header(), what)
				continue
			}
			compressed[target] = true
			require.Less(t, size, plain.Body.Len(), what)
			require.GreaterOrEqual(t, plain.Body.Len(), minCompressed, what)
			require.Contains(t, got.Header().Get("Vary"), "Accept-Encoding", what)
			require.Equal(t, "gzip", got.Header().Get("Content-Encoding"), what)
			require.Equal(t, strings.TrimSuffix(plain.Header().Get("Etag"), `"`)+`-gzip"`, tag, what)
			same := fetch(s, "GET", target, "Accept", accept, "Accept-Encoding", "gzip", "If-None-Match", `"other", `+tag)
			require.Equal(t, 304, same.Code, what)
			require.Equal(t, tag, same.Header().Get("Etag"), what)
			require.Zero(t, same.Body.Len(), what)
			require.Equal(t, got.Header()["Vary"], same.Header()["Vary"], what)
			require.Empty(t, same.Header().Get("Content-Length"), what)
		}
	}
	for _, target := range []string{"/openapi.json", "/.well-known/agent-card.json", "/llms.txt", "/v1/invoice", "/v1/pay", "/v1/pay/transfer", "/v1/sponsor"} {
		require.True(t, compressed[target], target)
	}
}

func TestGzipOfReceivedPage(t *testing.T) {
	s := newWorld(t).server(t)
	got := fetch(s, "GET", "/v1/received", "Accept", browser, "Accept-Encoding", "gzip")
	require.Equal(t, "gzip", got.Header().Get("Content-Encoding"))
	require.Equal(t, "no-store", got.Header().Get("Cache-Control"))
	require.Contains(t, unpacked(t, got), `<h1 id="sum">`)
}

func TestGzipNeedsAcceptEncoding(t *testing.T) {
	s := newWorld(t).server(t)
	for accept, want := range map[string]string{
		"": "", "gzip": "gzip", "zstd": "", "GZIP": "gzip", "gzip, deflate, br, zstd": "gzip", "br, gzip;q=0.5": "gzip", "gzip;q=0": "", "gzip ; q=0.000": "",
		"identity": "", "*": "", "br": "", "gzip;q=2": "", "gzip;level=9": "", ",,,gzip,,": "gzip", "\x00gzip": "", ";q=1": "", "gzip gzip": "",
		strings.Repeat("x,", 100_000) + "gzip": "gzip", strings.Repeat("gzip;", 100_000): "",
	} {
		name := accept[:min(len(accept), 40)]
		got := fetch(s, "GET", "/openapi.json", "Accept-Encoding", accept)
		require.Equal(t, 200, got.Code, name)
		require.Equal(t, want, got.Header().Get("Content-Encoding"), name)
		require.NotEmpty(t, unpacked(t, got), name)
	}
}

// What one client alone may know, or has sent itself, tells nothing by its size.
func TestGzipSkipsPrivateResponses(t *testing.T) {
	w := newWorld(t)
	w.outcome = x402.Outcome{Status: x402.Settled, Version: 2, Intent: "0x1", Response: &x402.SettleResponse{Success: true}}
	s := w.server(t)
	accept := []string{"Accept-Encoding", "gzip", "Accept", browser}
	for _, c := range []struct{ method, target string }{
		{"GET", "/v1/offer"}, {"POST", "/v1/offer"}, {"GET", "/v1/quote"}, {"POST", "/v1/sponsor"}, {"POST", "/mcp"},
		{"GET", "/v1/receipt/" + strings.Repeat("a", 2_000)}, {"GET", "/v1/thanks?session_id=cs_1"}, {"GET", "/v1/thanks"},
		{"GET", "/v1/received?limit=7"}, {"GET", "/v1/received?after=0"}, {"GET", "/v1/pay/none"},
		{"GET", "/.well-known/webfinger?resource=acct:pay@pay.example.org"},
	} {
		got := fetch(s, c.method, c.target, accept...)
		require.Empty(t, got.Header().Get("Content-Encoding"), c)
		require.NotContains(t, got.Header().Get("Vary"), "Accept-Encoding", c)
	}
	paid := fetch(s, "POST", "/v1/sponsor", "Accept-Encoding", "gzip", "PAYMENT-SIGNATURE", "e30=")
	require.Equal(t, http.StatusOK, paid.Code)
	require.Empty(t, paid.Header().Get("Content-Encoding"))
}

func TestAcceptMustNameHTML(t *testing.T) {
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
