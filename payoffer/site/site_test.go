package site

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

func makeOffer(t *testing.T, name, operator, description string) *offer.Offer {
	t.Helper()
	o := payoffertest.Offer(t, offer.Terms{
		BaseURL: "https://pay.example.org", SiteURL: "https://www.example.org", Amount: 42_00,
		Name: name, Operator: operator, Description: description,
	}, "base")
	o.Card.URL = "https://checkout.shop/pay?a=1&b=2" // as no demo has
	return o
}

// respHeader is what Caddy's templates handler gives a template of the response.
type respHeader struct{ http.Header }

func (r respHeader) Set(name, value string) string {
	r.Header.Set(name, value)
	return ""
}

func (r respHeader) Add(name, value string) string {
	r.Header.Add(name, value)
	return ""
}

// render does what Caddy's templates handler does: text/template, which
// escapes nothing by itself.
func render(t *testing.T, o *offer.Offer, tag, accept string) (string, http.Header) {
	t.Helper()
	source, err := fs.ReadFile(FS, "offer/index.html")
	require.NoError(t, err)
	page, err := template.New("").Funcs(template.FuncMap{"payOffer": func(*http.Request) Data { return NewData(o, tag, []string{accept}) }}).Parse(string(source))
	require.NoError(t, err)
	var out strings.Builder
	header := http.Header{"Vary": {"Accept-Encoding"}}
	require.NoError(t, page.Execute(&out, struct {
		Req        *http.Request
		RespHeader respHeader
	}{new(http.Request), respHeader{header}}))
	return out.String(), header
}

func TestPageContent(t *testing.T) {
	page, _ := render(t, makeOffer(t, "Example Offer", "Example Org", "One payment."), "", "")
	require.True(t, strings.HasPrefix(page, "<!doctype html>"))
	for _, want := range []string{
		"<h1>Example Offer</h1>", `<p class="price">$42 <small>USD, one-time</small></p>`, "One payment.",
		`id="checkout" rel="payment" href="https://checkout.shop/pay?a=1&amp;b=2"`,
		`href="https://pay.example.org/v1/pay#usdc"><strong>USDC on Base</strong><small>About a minute<`, `href="https://pay.example.org/v1/pay#btc"><strong>Bitcoin</strong><small>10 to 60 minutes<`,
		"You will pay on the secure page of checkout.shop.", `<path d="M6 11h12v9H6zM8.5`,
		`"price":"42.00"`, ".sheet {", `<link rel="canonical" href="https://www.example.org/offer/">`,
		`<meta property="og:title" content="Example Offer: $42">`, `<meta name="twitter:card" content="summary_large_image">`,
		`<meta property="og:image" content="https://pay.example.org/v1/pay/preview.png">`, `<meta property="og:image:alt" content="Example Offer: $42">`,
	} {
		require.Contains(t, page, want)
	}
}

// What the pages of the service host say of the operator, this one says, too.
func TestPageShowsOperatorDetails(t *testing.T) {
	o := makeOffer(t, "Example Offer", "Example Org", "One payment.")
	o.Amount, o.Contact, o.Refunds, o.Logo = 1042_50, "pay+42@example.org", `Refunds "within" 14 days.`, "https://pay.example.org/logo.svg?a&b"
	o.Legal = []string{"Example Org Ltd", "VAT <1>"}
	for _, l := range text.Languages {
		page, header := render(t, o, l.Tag, "")
		price := l.Text("fact.price", "amount", o.Amount)
		for _, want := range []string{
			"<title>Example Offer: " + price + "</title>", `<p class="price">` + price + " <small>", ">" + l.Text("site.pay", "amount", o.Amount) + "<",
			`content="Example Offer: ` + price + `"`, `src="https://pay.example.org/logo.svg?a&amp;b" height="40" alt="">`,
			`<link rel="icon" href="https://pay.example.org/logo.svg?a&amp;b">`,
			`<a href="mailto:pay+42@example.org">` + l.Text("layout.question") + "</a>", "<li>Refunds &#34;within&#34; 14 days.</li>", "<p>Example Org Ltd · VAT &lt;1&gt;</p>\n</footer>",
		} {
			require.Contains(t, page, want)
		}
		require.Contains(t, price, l.Number("1042.50"))
		require.Contains(t, header.Get("Content-Security-Policy"), "img-src data: https://pay.example.org;")
	}
}

func TestPageLanguage(t *testing.T) {
	o := makeOffer(t, "Example Offer", "Example Org", "One payment.")
	for _, l := range text.Languages {
		for query, link := range map[string]string{"": "", l.Tag: "?lang=" + l.Tag} {
			page, header := render(t, o, query, l.Tag)
			require.Contains(t, page, `<html lang="`+l.Tag+`">`)
			require.Contains(t, page, "<h2 id=\"checkout-title\">"+l.Text("site.title")+"</h2>")
			require.Contains(t, page, `href="https://pay.example.org/v1/pay`+link+`#usdc"><strong>`+l.Say(o.USDC()[0].Face().Name)+"<")
			require.Contains(t, page, `<link rel="canonical" href="https://www.example.org/offer/`+link+`">`)
			require.Equal(t, l.Tag, header.Get("Content-Language"))
			require.Equal(t, []string{"Accept-Language, Accept-Encoding"}, header.Values("Vary"))
		}
	}
}

func TestPageLoadsNothingExternal(t *testing.T) {
	for _, l := range text.Languages {
		page, header := render(t, makeOffer(t, "Example Offer", "Example Org", "One payment."), l.Tag, "")
		require.NotRegexp(t, regexp.MustCompile(`(?i)\ssrc=|url\(|@import|http-equiv|\sstyle=|\son[a-z]+=`), page)
		for _, link := range regexp.MustCompile(`<link rel="(icon|stylesheet|preload)"[^>]*href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			require.True(t, strings.HasPrefix(link[2], "data:image/svg+xml;base64,"))
		}
		inlined := func(element string) string {
			found := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(page, -1)
			require.Len(t, found, 1, "one %s", element)
			return Source(found[0][1])
		}
		require.Equal(t, "default-src 'none'; img-src data:; style-src "+inlined("style")+"; script-src "+inlined("script")+
			"; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", header.Get("Content-Security-Policy"))
		require.Less(t, len(page), 16<<10)
	}
}

func TestDemoPageDoesNotRedirect(t *testing.T) {
	for address, demo := range map[string]bool{
		"https://checkout.example/pay-42": true, "https://example.com/": true, "https://pay.EXAMPLE.org:8443/x": true, "https://shop.test/": true,
		"https://buy.checkout.shop/a": false, "https://example.shop/": false, "https://myexample.com/": false,
	} {
		o := makeOffer(t, "Example Offer", "", "")
		o.Card.URL = address
		page, header := render(t, o, "", "")
		require.Equal(t, demo, strings.Contains(page, "This is a demo"), address)
		require.Equal(t, !demo, strings.Contains(page, "location.assign"), address)
		require.Equal(t, !demo, strings.Contains(page, "You will pay on the secure page of"), address)
		require.Equal(t, !demo, strings.Contains(header.Get("Content-Security-Policy"), "script-src"), address)
	}
}

func TestDefaultDescriptionIsNotUnderPrice(t *testing.T) {
	for _, l := range text.Languages {
		page, _ := render(t, makeOffer(t, "Example Offer", "", offer.DefaultDescription(42_00)), l.Tag, "")
		require.NotContains(t, page, `class="lead"`)
		require.Contains(t, page, `<meta name="description" content="`+l.Text("default.description", "amount", offer.USD(42_00)))
	}
	page, _ := render(t, makeOffer(t, "Example Offer", "", "A year of work."), "", "")
	require.Contains(t, page, `<p class="lead">A year of work.</p>`)
}

func TestHostileTextIsEscaped(t *testing.T) {
	evil := `</script></style><script>alert(1)</script><img src=x onerror=alert(2)>"'{{payOffer}}`
	o := makeOffer(t, evil, evil, evil)
	o.Contact, o.Refunds, o.Legal = evil, evil, []string{evil}
	page, _ := render(t, o, "", "")
	require.NotContains(t, page, "<script>alert")
	require.NotContains(t, page, "<img")
	require.Equal(t, 3, strings.Count(page, "</script>"))
	require.Equal(t, 1, strings.Count(page, "</style>"))
}

func TestWriteKeepsExistingPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site")
	require.NoError(t, Write(dir))
	written, err := os.ReadFile(filepath.Join(dir, "offer", "index.html"))
	require.NoError(t, err)
	require.Contains(t, string(written), "<!doctype html>")
	require.NoError(t, Write(dir), "the same page is no error")

	path := filepath.Join(dir, "offer", "index.html")
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	require.ErrorContains(t, Write(dir), path)
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "mine", string(kept))
}
