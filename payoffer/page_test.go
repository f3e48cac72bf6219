package payoffer

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page is served beside an application that would answer every path, and the
// application is not changed by it.
func TestPageBesideAnApplication(t *testing.T) {
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
func TestPageOfTheOnlyOfferNeedsNoHost(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(strings.Replace(smallest, "card", "site_url http://localhost:1\n\t\tcard", 1)+"OTHER {\n\tpay_offer_page\n}\n"))
	require.Contains(t, i.get(i.other+"/offer/").body, i.service+"/v1/pay")
}

func TestPageTakesNoArguments(t *testing.T) {
	for _, directive := range []string{"pay_offer_page /shop", "pay_offer_page {\n\t\tname x\n\t}"} {
		_, _, err := adaptAny("http://localhost:8403 {\n\t" + directive + "\n}\n")
		require.ErrorContains(t, err, "pay_offer_page takes no arguments and no block")
	}
}

// TestSnippetsOfTheDocumentationShowWhatIsServed requests every address of the blocks that sellers
// copy to other sites.
func TestSnippetsOfTheDocumentationShowWhatIsServed(t *testing.T) {
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
