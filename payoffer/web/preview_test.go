package web

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
		for _, want := range []string{
			`<link rel="canonical" href="` + baseURL + address + `">`, `<meta property="og:url" content="` + baseURL + address + `">`,
			`<meta property="og:type" content="website">`, `<meta property="og:site_name" content="Example Offer">`, `<meta name="twitter:card" content="summary">`,
			`<meta property="og:image" content="` + baseURL + `/logo.svg">`, `<meta property="og:description" content="A &#34;quoted&#34; &lt;sentence&gt;">`,
			`<link rel="alternate" hreflang="fr" href="` + baseURL + strings.TrimSuffix(address, "?lang=de") + `?lang=fr">`,
			`<link rel="icon" type="image/svg+xml" href="/favicon.svg">`,
		} {
			require.Contains(t, page, want, target)
		}
		title := strings.SplitN(strings.SplitN(page, "<title>", 2)[1], "</title>", 2)[0]
		require.Contains(t, page, `<meta property="og:title" content="`+title+`">`)
	}
	w = newWorld(t)
	require.NotContains(t, read(t, send(t, w.server(t), "GET", "/v1/pay", "", "Accept", browser)), "og:image")
}
