package web

import (
	"bytes"
	"compress/gzip"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
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
func TestPagesDependOnTheLanguageAndAnswersToProgramsDoNot(t *testing.T) {
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
func TestAChosenLanguageIsCarriedOn(t *testing.T) {
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
const maxPage = 40 << 10

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
