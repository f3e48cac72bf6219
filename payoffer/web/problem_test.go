package web

import (
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/picture"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// lateBody does not arrive in time.
type lateBody struct{ brokenBody }

func (lateBody) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// A wrong is a request that ends in a problem.
type wrong struct {
	kind           problemKind
	method, target string
	body           string
	change         func(*world, *http.Request)
	// own says that the detail is a protocol's own sentence.
	own bool
}

func wrongs() []wrong {
	outcome := func(o x402.Outcome) func(*world, *http.Request) {
		return func(w *world, r *http.Request) {
			w.outcome = o
			r.Header.Set("PAYMENT-SIGNATURE", "e30=")
		}
	}
	pays := func(kind problemKind, o x402.Outcome) wrong {
		return wrong{kind: kind, method: "POST", target: "/v1/sponsor", change: outcome(o), own: true}
	}
	return []wrong{
		{kind: problemResource, method: "GET", target: "/.well-known/webfinger"},
		{kind: problemResource, method: "GET", target: "/.well-known/webfinger?resource=pay"},
		{kind: problemUnknown, method: "GET", target: "/.well-known/webfinger?resource=acct:a@b.example"},
		{kind: problemNotFound, method: "GET", target: "/v1/pay/none.uri"},
		{kind: problemNotFound, method: "GET", target: "/v1/qr/usdc/none.png"},
		{kind: problemPage, method: "GET", target: "/v1/received?before=x"},
		{kind: problemSession, method: "GET", target: "/v1/thanks?session_id=x"},
		{kind: problemMethod, method: "DELETE", target: "/v1/pay"},
		{kind: problemMethod, method: "POST", target: "/humans.txt"},
		{kind: problemTooLarge, method: "POST", target: "/v1/offer", body: strings.Repeat("x", maxBody+1)},
		{kind: problemBody, method: "POST", target: "/v1/sponsor", change: func(_ *world, r *http.Request) { r.Body, r.ContentLength = io.NopCloser(brokenBody{}), 9 }},
		{kind: problemSlow, method: "POST", target: "/v1/sponsor", change: func(_ *world, r *http.Request) { r.Body, r.ContentLength = io.NopCloser(lateBody{}), 9 }},
		{kind: problemNoRate, method: "GET", target: "/v1/pay/btc.uri", change: func(w *world, _ *http.Request) { w.live = offer.Live{} }},
		{kind: problemNotStarted, method: "GET", target: "/v1/pay/usdc.png", change: func(w *world, _ *http.Request) { w.key = nil }},
		{kind: problemLedger, method: "GET", target: "/v1/received", change: func(w *world, _ *http.Request) { w.err = errors.New("closed") }},
		{kind: problemInvoice, method: "POST", target: "/v1/pay/lightning", change: func(w *world, _ *http.Request) { w.refusal = errors.New("bad_answer") }},
		{kind: problemNoRate, method: "POST", target: "/v1/pay/lightning", change: func(w *world, _ *http.Request) { w.live = offer.Live{} }},
		{kind: problemLedger, method: "POST", target: "/v1/pay/lightning", change: func(w *world, _ *http.Request) { w.refusal = observe.ErrNoLedger }},
		{kind: problemTooManyTries, method: "POST", target: "/v1/pay/lightning", change: func(w *world, r *http.Request) {
			w.limiter = x402.NewLimiter(x402.Limit{Attempts: 1, Period: time.Minute})
			w.limiter.TakeAttempt(r.RemoteAddr, at)
		}},
		pays(problemMalformed, x402.Outcome{Status: x402.Malformed, Detail: "no <b>signature</b>"}),
		pays(problemConflict, x402.Outcome{Status: x402.Conflict, Detail: "another payment is open", Intent: "0xabc"}),
		pays(problemTooManyTries, x402.Outcome{Status: x402.Limited, RetryAfter: time.Second}),
		pays(problemSettlement, x402.Outcome{Status: x402.Unavailable, RetryAfter: 5 * time.Second, Reason: "facilitator_unavailable"}),
		pays(problemOpen, x402.Outcome{Status: x402.Open, RetryAfter: 9 * time.Second, Intent: "0xdef"}),
	}
}

// answer is what a server says to the request, from a client with these headers.
func (wr wrong) answer(t *testing.T, method string, headers ...string) *http.Response {
	t.Helper()
	w := newWorld(t)
	r := httptest.NewRequest(method, wr.target, strings.NewReader(wr.body))
	if wr.change != nil {
		wr.change(w, r)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	require.True(t, w.server(t).Serve(rec, r))
	return rec.Result()
}

func TestProblemAsPageOrJSON(t *testing.T) {
	var met []problemKind
	for _, c := range wrongs() {
		met = append(met, c.kind)
		told := c.answer(t, c.method, "Accept", "*/*")
		body := readJSON(t, told)
		require.Equal(t, problemType+c.kind.name, body["type"])
		require.Equal(t, c.kind.title(text.Languages[0]), body["title"])
		for _, l := range text.Languages {
			name := c.method + " " + c.target + " " + l.Tag
			program := c.answer(t, c.method, "Accept", "application/problem+json, text/html;q=0.5", "Accept-Language", l.Tag)
			require.Equal(t, told.Header, program.Header, name)
			require.Equal(t, body, readJSON(t, program), "a program is told in English: %s", name)

			res := c.answer(t, c.method, "Accept", browser, "Accept-Language", l.Tag)
			page := read(t, res)
			require.Equal(t, c.kind.status, res.StatusCode, name)
			require.Contains(t, page, `<html lang="`+l.Tag+`">`, name)
			require.Equal(t, 1, strings.Count(page, "<h1>"), name)
			require.Contains(t, page, "<h1>"+c.kind.title(l)+"</h1>", name)
			paid := c.kind == problemSession || c.kind == problemOpen || c.kind == problemConflict || c.kind == problemLedger
			require.Equal(t, !paid, strings.Contains(page, `href="/v1/pay`), "a payer who may have paid is not asked to: %s", name)
			require.Equal(t, paid, regexp.MustCompile(`class="button( plain)?" href="mailto:pay@example.org">`+l.Text("error.write")).MatchString(page), name)
			require.NotRegexp(t, ">[45][0-9][0-9]", page, "a bare number: %s", name)
			require.False(t, c.method == http.MethodGet && strings.Contains(page, "Retry-After"), "payers know no headers: "+name)
			require.NotContains(t, page, "<b>", name)
			english := strings.Contains(page, `<p lang="en">`)
			require.Equal(t, c.own && l.Tag != "en", english, name)
			if c.kind == problemNoRate || c.kind == problemInvoice || strings.HasPrefix(c.target, "/v1/pay/none") { // a button leads to the others
				said := l.Text("error."+c.kind.name+".page", "reason", offer.Phrase{Key: "rail.btc.noRate"})
				require.Contains(t, html.UnescapeString(page), "<p>"+capitalized(said)+"</p>", name)
				require.Contains(t, page, `href="/v1/pay">`+l.Text("layout.allWays")+"</a>", name)
			} else if english || l.Tag == "en" {
				detail := strings.NewReplacer("<", "&lt;", ">", "&gt;", "'", "&#39;", "+", "&#43;", "&", "&amp;").Replace(body["detail"].(string))
				require.Contains(t, page, ">"+detail+"</p>", name)
			}
			for _, member := range []string{"reason", "intent"} {
				if said, has := body[member]; has {
					require.Contains(t, page, "<code>"+said.(string)+"</code>", name)
				}
			}
			require.Equal(t, c.method == "GET" && res.Header.Get("Retry-After") != "", strings.Contains(page, `<a class="button" href="">`), name)

			require.Contains(t, page, `<meta name="robots" content="noindex">`, name)
			require.NotContains(t, page, `rel="canonical"`, name)
			require.Equal(t, l.Tag, res.Header.Get("Content-Language"), name)
			require.Contains(t, res.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'", name)
			require.Equal(t, []string{"Accept, Accept-Language"}, res.Header.Values("Vary"), name)
			require.Equal(t, []string{"Accept"}, told.Header.Values("Vary"), name)
			for _, kept := range []string{"Cache-Control", "Retry-After", "Allow", "Access-Control-Allow-Origin", "Link", "X-Content-Type-Options"} {
				require.Equal(t, told.Header.Values(kept), res.Header.Values(kept), "%s: %s", name, kept)
			}
			require.Equal(t, "no-store", res.Header.Get("Cache-Control"), name)
			if c.method == http.MethodGet {
				head := c.answer(t, http.MethodHead, "Accept", browser, "Accept-Language", l.Tag)
				require.Equal(t, res.StatusCode, head.StatusCode, name)
				require.Equal(t, res.Header, head.Header, name)
				require.Empty(t, read(t, head), name)
			}
		}
	}
	for _, kind := range problemKinds {
		elsewhere := []problemKind{problemPrivate, problemCursor, problemUnverified, problemDelivery, problemNotRecorded, problemUsed}
		require.Equal(t, !slices.Contains(elsewhere, kind), slices.Contains(met, kind), kind.name)
	}
}

func TestProblemPageLanguage(t *testing.T) {
	page := read(t, send(t, newWorld(t).server(t), "GET", "/v1/pay/none.uri?lang=fr", "", "Accept", browser, "Accept-Language", "de"))
	require.Contains(t, page, "<h1>Page introuvable</h1>")
	require.Contains(t, page, `href="/v1/pay?lang=fr"`)
}

func TestReceiptNotFoundLeadsToSeller(t *testing.T) {
	w := newWorld(t)
	for contact, button := range map[string]string{
		"pay@example.org": `<a class="button" href="mailto:pay@example.org">Write to the seller</a>`,
		"":                `<a class="button" href="https://www.example.org/">Back to Example Org</a>`,
	} {
		terms := w.offer.Terms
		terms.Contact = contact
		w.offer = payoffertest.Offer(t, terms, "base")
		page := read(t, send(t, w.server(t), "GET", "/v1/receipt/none", "", "Accept", browser))
		require.Contains(t, page, "<h1>Receipt not found</h1>")
		require.Contains(t, page, button)
	}
	require.Equal(t, "Page not found", readJSON(t, send(t, w.server(t), "GET", "/v1/receipt/none", ""))["title"], "programs know the kind")
}

func TestSponsorPOSTIsAlwaysJSON(t *testing.T) {
	for _, o := range []x402.Outcome{{Status: x402.Refused, Reason: "insufficient_funds"}, {Status: x402.Settled}} {
		w := newWorld(t)
		w.outcome = o
		res := send(t, w.server(t), "POST", "/v1/sponsor", "", "Accept", browser, "PAYMENT-SIGNATURE", "e30=")
		require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	}
}

func TestProviderAndAgentProblemsAreJSON(t *testing.T) {
	w := newWorld(t)
	w.hooks = allHooks(new(receiver))
	s := w.server(t)
	for _, c := range []path{{"GET", "/mcp"}, {"GET", "/v1/hook/card"}, {"POST", "/v1/hook/none"}, {"POST", "/v1/hook/card/"}} {
		res := send(t, s, c.method, c.path, "", "Accept", browser)
		require.GreaterOrEqual(t, res.StatusCode, 400)
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"), c.path)
		require.NotContains(t, res.Header, "Vary", c.path)
	}
}

func TestPagePreviewAndLanguageLinks(t *testing.T) {
	w := newWorld(t)
	with := w.offer.Terms
	with.Logo, with.Description = baseURL+"/logo.svg", `A "quoted" <sentence>`
	w.offer = payoffertest.Offer(t, with, "base")
	s := w.server(t)
	for target, address := range map[string]string{
		"/v1/pay": "/v1/pay", "/v1/pay?lang=de": "/v1/pay?lang=de", "/v1/invoice": "/v1/pay", "/v1/sponsor": "/v1/sponsor", "/v1/pay/transfer": "/v1/pay/transfer",
	} {
		page := read(t, send(t, s, "GET", target, "", "Accept", browser))
		price := "$42"
		if strings.HasSuffix(address, "?lang=de") {
			price = "42\u00a0$"
		}
		for _, want := range []string{
			`<link rel="canonical" href="` + baseURL + address + `">`, `<meta property="og:url" content="` + baseURL + address + `">`,
			`<meta property="og:site_name" content="Example Offer">`, `<meta name="twitter:card" content="summary_large_image">`,
			`<meta property="og:image" content="` + baseURL + offer.PathPreview + `">`, `<meta property="og:image:width" content="1200">`,
			`<meta property="og:image:height" content="630">`, `<meta property="og:image:alt" content="Example Offer: ` + price + `">`, `<meta property="og:description" content="A &#34;quoted&#34; &lt;sentence&gt;">`,
			`<link rel="alternate" hreflang="fr" href="` + baseURL + strings.TrimSuffix(address, "?lang=de") + `?lang=fr">`,
			`<link rel="icon" href="/logo.svg">`,
		} {
			require.Contains(t, page, want, target)
		}
		title := strings.SplitN(strings.SplitN(page, "<title>", 2)[1], "</title>", 2)[0]
		require.Contains(t, page, `<meta property="og:title" content="`+title+`">`)
	}
}

// A page with an address of its own has a preview, and others, such as receipts and errors, have none.
func TestCanonicalPagesHavePreviewImage(t *testing.T) {
	s, with := newWorld(t).server(t), 0
	for _, l := range text.Languages {
		for _, v := range visits(s, "text") {
			answer := look(t, s, v, l, "")
			if answer == nil {
				continue
			}
			page := answer.Body.String()
			has := strings.Contains(page, `<meta property="og:image" content="`+baseURL+offer.PathPreview+`">`)
			require.Equal(t, strings.Contains(page, `<link rel="canonical"`), has, v.name)
			require.Equal(t, has, strings.Contains(page, "summary_large_image"), v.name)
			require.Equal(t, !has, strings.Contains(page, `content="noindex"`), v.name)
			require.Contains(t, page, `<link rel="icon" href="/favicon.svg">`)
			if has {
				with++
			}
		}
	}
	require.Greater(t, with, 5*len(text.Languages))
}

func TestOfferImages(t *testing.T) {
	w := newWorld(t)
	w.offer.Accent = "#6b21a8"
	s := w.server(t)
	for path, draw := range map[string]func(*offer.Offer) []byte{
		offer.PathPreview: func(o *offer.Offer) []byte { return picture.Preview(o, nil) }, offer.PathButton: picture.Button, offer.PathBadge: picture.Badge,
		offer.PathIcon: picture.Icon, offer.PathFavicon: picture.Favicon, offer.PathTouchIcon: picture.TouchIcon,
	} {
		res := send(t, s, "GET", path, "")
		require.Equal(t, string(draw(w.offer)), read(t, res), path)
		require.Equal(t, cacheDocument, res.Header.Get("Cache-Control"), path)
		require.Equal(t, 304, send(t, s, "GET", path, "", "If-None-Match", res.Header.Get("ETag")).StatusCode, path)
		if strings.HasSuffix(path, ".svg") {
			require.Equal(t, "default-src 'none'; sandbox", res.Header.Get("Content-Security-Policy"), path)
		}
	}
}
