package web

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/picture"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

func TestAPageCanBePreviewedAndKnowsItsOtherLanguages(t *testing.T) {
	w := newWorld(t)
	with := w.offer.Terms
	with.Logo, with.Description = baseURL+"/logo.svg", `A "quoted" <sentence>`
	w.offer = makeOffer(t, with, "base")
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
			`<meta property="og:type" content="website">`, `<meta property="og:site_name" content="Example Offer">`, `<meta name="twitter:card" content="summary_large_image">`,
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
func TestEveryPageWithAnAddressNamesItsPreview(t *testing.T) {
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
			require.Contains(t, page, `<link rel="icon" type="image/svg+xml" href="/favicon.svg">`)
			if has {
				with++
			}
		}
	}
	require.Greater(t, with, 5*len(text.Languages))
}

func TestImagesForOtherSitesAreDrawnOfTheOffer(t *testing.T) {
	w := newWorld(t)
	w.offer.Accent = "#6b21a8"
	s := w.server(t)
	for path, draw := range map[string]func(*offer.Offer) []byte{
		offer.PathPreview: picture.Preview, offer.PathButton: picture.Button, offer.PathBadge: picture.Badge,
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
