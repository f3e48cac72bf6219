package payoffer

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each kind of answer, through Caddy's own server: status and media type. TestTheLinksOfAnOfferAllAnswer requests all
// links; what the bodies say is tested where they are made.
func TestEveryKindOfPathAnswers(t *testing.T) {
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
		bitcoin bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4 {
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

func TestOfferStandsBesideWhatASiteHasAlready(t *testing.T) {
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

func TestOfferInsideARouteAndBehindAMatcher(t *testing.T) {
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
func TestSiteHostServesThePage(t *testing.T) {
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

func TestOffersThatCannotBeToldApartAreRefused(t *testing.T) {
	i := newInstance(t)
	second := func(options string) string {
		return smallest + "OTHER {\n\tpay_offer {\n" + options + "\t\tcard https://checkout.example/other\n\t}\n}\n"
	}
	const samePayee = "\t\tusdc base-sepolia 0x52908400098527886E0F7030069857D2E4169EE7 {\n\t\t\tfacilitator http://127.0.0.1:9\n\t\t\trpc off\n\t\t}\n"

	require.ErrorContains(t, i.load(second("\t\tbase_url SERVICE\n")), "two offers have the id")
	require.ErrorContains(t, i.load(second("\t\tbase_url OTHER\n"+samePayee)), "both receive money at the account of usdc")
	require.NoError(t, i.load(second("\t\tbase_url OTHER\n")))
}
