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
)

const checkout = "https://checkout.example/pay?a=1&b=2"

func makeOffer(t *testing.T, name, operator, description string) *offer.Offer {
	t.Helper()
	card, err := offer.NewCard(checkout, nil, 42_00)
	require.NoError(t, err)
	network, err := offer.LookupNetwork("base")
	require.NoError(t, err)
	usdc, err := offer.NewUSDC("usdc", network, "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", 42_00)
	require.NoError(t, err)
	btc, err := offer.NewBitcoin("bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq", name, 42_00)
	require.NoError(t, err)
	o, err := offer.New(offer.Terms{
		BaseURL: "https://pay.example.org", SiteURL: "https://www.example.org", Amount: 42_00,
		Name: name, Operator: operator, Description: description,
	}, card, usdc, btc)
	require.NoError(t, err)
	return o
}

// render does what Caddy's templates handler does: text/template, which
// escapes nothing by itself.
func render(t *testing.T, o *offer.Offer) string {
	t.Helper()
	source, err := fs.ReadFile(FS, "offer/index.html")
	require.NoError(t, err)
	page, err := template.New("").Funcs(template.FuncMap{"payOffer": func(*http.Request) Data { return NewData(o) }}).Parse(string(source))
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, page.Execute(&out, struct{ Req *http.Request }{new(http.Request)}))
	return out.String()
}

func TestThePageSaysWhatIsPaidAndToWhom(t *testing.T) {
	page := render(t, makeOffer(t, "Example Offer", "Example Org", "One payment."))
	require.True(t, strings.HasPrefix(page, "<!doctype html>"))
	for _, want := range []string{
		"<h1>Example Offer</h1>", "42 USD <small>one payment to Example Org</small>", "One payment.",
		`id="checkout" rel="payment" href="https://checkout.example/pay?a=1&amp;b=2"`,
		`href="https://pay.example.org/v1/pay#usdc">42 USDC on Base<`, `href="https://pay.example.org/v1/pay#btc">42 USD in bitcoin<`,
		`"price":"42.00"`, ".sheet {",
	} {
		require.Contains(t, page, want)
	}
	require.Equal(t, "Example Offer", NewData(makeOffer(t, "Example Offer", "", "")).Payee)
}

func TestThePageLoadsNothingFromElsewhere(t *testing.T) {
	page := render(t, makeOffer(t, "Example Offer", "Example Org", "One payment."))
	require.NotRegexp(t, regexp.MustCompile(`(?i)\ssrc=|url\(|@import|http-equiv="refresh"`), page)
	for _, link := range regexp.MustCompile(`<link [^>]*href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		require.Contains(t, []string{"data:,", "https://checkout.example/pay?a=1&amp;b=2"}, link[1])
	}
	require.Contains(t, page, `content="default-src 'none';`)
}

func TestHostileTextStaysText(t *testing.T) {
	evil := `</script></style><script>alert(1)</script><img src=x onerror=alert(2)>"'{{payOffer}}`
	page := render(t, makeOffer(t, evil, evil, evil))
	require.NotContains(t, page, "<script>alert")
	require.NotContains(t, page, "<img")
	require.Equal(t, 2, strings.Count(page, "</script>"))
	require.Equal(t, 1, strings.Count(page, "</style>"))
}

func TestWriteNeverOverwritesAnotherPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site")
	require.NoError(t, Write(dir))
	written, err := os.ReadFile(filepath.Join(dir, "offer", "index.html"))
	require.NoError(t, err)
	source, err := fs.ReadFile(FS, "offer/index.html")
	require.NoError(t, err)
	require.Equal(t, source, written)
	require.NoError(t, Write(dir), "the same page is not in the way")

	path := filepath.Join(dir, "offer", "index.html")
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	require.ErrorContains(t, Write(dir), path)
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "mine", string(kept))
}

func TestWriteSaysWhyItCannot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Error(t, Write(file))
}
