package payoffer

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// gated is smallest with a gate that has these options.
func gated(options ...string) string {
	block := ""
	if len(options) > 0 {
		block = " {\n\t\t" + strings.Join(options, "\n\t\t") + "\n\t}"
	}
	return strings.Replace(smallest, "\trespond", "\tpay_offer_gate"+block+"\n\trespond", 1)
}

// another is a second offer, on the origin OTHER.
const another = "OTHER {\n\tpay_offer {\n\t\tbase_url OTHER\n\t\tcard https://checkout.example/other\n\t}\n}\n"

// gates loads sites and returns the gates of the first offer.
func (i *instance) gates(sites string) []offer.Gate {
	i.t.Helper()
	require.NoError(i.t, i.load(sites))
	return activeApp().running()[0].Offer.Gates
}

func TestGateBelongsToOffer(t *testing.T) {
	i := newInstance(t)
	require.Empty(t, i.gates(smallest))
	require.Equal(t, []offer.Gate{{Start: i.service + "/", Access: 30 * 24 * time.Hour}}, i.gates(gated()))
	require.Equal(t, []offer.Gate{{Start: i.service + "/course/", Access: time.Hour}}, i.gates(gated("start /course/", "access 1h")))
	require.Equal(t, []offer.Gate{{Start: "https://example.org/", Access: time.Minute}}, i.gates(gated("start HTTPS://Example.org:443", "access 1m")))
	require.Equal(t, []offer.Gate{{Start: i.service + "/", Access: 30 * 24 * time.Hour, ChargeFirst: true}}, i.gates(gated("charge first")))

	t.Setenv("OFFER_TEST_ID", offer.Host(i.other))
	require.NoError(t, i.load(gated("offer {env.OFFER_TEST_ID}")+another))
	for _, svc := range activeApp().running() {
		if svc.Offer.BaseURL == i.other {
			require.Equal(t, []offer.Gate{{Start: i.other + "/", Access: 30 * 24 * time.Hour}}, svc.Offer.Gates)
		} else {
			require.Empty(t, svc.Offer.Gates)
		}
	}
	require.Equal(t, http.StatusPaymentRequired, i.get(i.service+"/").status)
}

// Caddy makes one handler for each of a site's ports; all are one gate of one service.
func TestOfferListsEachGateOnce(t *testing.T) {
	i := newInstance(t)
	sites := strings.Replace(gated("start /b/"), "\trespond", `	@c path /c/*
	pay_offer_gate @c {
		start /a/
		access 2h
	}
	@d path /d/*
	pay_offer_gate @d {
		start /a/
		access 1h
	}
	respond`, 1)
	require.Equal(t, []offer.Gate{
		{Start: i.service + "/a/", Access: time.Hour}, {Start: i.service + "/b/", Access: 30 * 24 * time.Hour},
	}, i.gates(strings.Replace(sites, "SERVICE {", "SERVICE, OTHER {", 1)))
	require.Len(t, activeApp().running(), 1)
	require.Len(t, activeApp().gates, 6)
	for _, origin := range []string{i.service, i.other} {
		require.Equal(t, http.StatusPaymentRequired, i.get(origin+"/v1/quote").status)
		require.Equal(t, http.StatusPaymentRequired, i.get(origin+"/b/").status)
	}
}

func TestReloadChangesGates(t *testing.T) {
	i := newInstance(t)
	i.gates(gated("start /a/"))
	require.Equal(t, []offer.Gate{{Start: i.service + "/b/", Access: 30 * 24 * time.Hour}}, i.gates(gated("start /b/")))
	require.Equal(t, http.StatusOK, i.get(i.service+"/v1/received").status)
}

// 'caddy validate' cannot see these mistakes: a gate may be provisioned before its offer.
func TestGateNeedsOffer(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	app := activeApp()
	id := offer.Host(i.service)
	both := []string{id, offer.Host(i.other)}
	slices.Sort(both)
	for want, sites := range map[string]string{
		`pay_offer_gate /: no offer has the id "three"; name the one whose payments open it, such as 'offer ` + id + `' (valid ids: ` + id + `)`: strings.Replace(
			gated("offer three"), "SERVICE {", "SERVICE, OTHER {", 1),
		`pay_offer_gate /a/: there are several offers; name the one whose payments open it, such as 'offer ` + both[0] + `' (valid ids: ` + strings.Join(both, ", ") + `)`: gated("start /a/") + another,
		`pay_offer_gate /: there is no offer to pay; add the directive pay_offer to a site`:                                                                                "SERVICE {\n\tpay_offer_gate\n\trespond \"open\"\n}\n",
	} {
		config := must(adapt(t, i.caddyfile(sites)))(t)
		require.NoError(t, caddy.Validate(decode(t, config)))
		err := i.load(sites)
		require.ErrorContains(t, err, want)
		require.Equal(t, 1, strings.Count(err.Error(), "pay_offer_gate"), "once for all addresses of a site")
		require.Same(t, app, activeApp())
		require.Equal(t, "the application", i.get(i.service+"/").body)
		i.untilReceived()

		file := filepath.Join(t.TempDir(), "caddy.json")
		require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
		require.ErrorContains(t, errorOf(payOffer(t, "check", "--config", file, "--adapter", "")), want)
	}
}

// Caddy may start its listeners before the app.
func TestRequestBeforeAppStart(t *testing.T) {
	i := newInstance(t)
	passed := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusTeapot)
		return nil
	})
	ask := func(app *App) (quote, page *httptest.ResponseRecorder) {
		quote, page = httptest.NewRecorder(), httptest.NewRecorder()
		for w, handler := range map[*httptest.ResponseRecorder]caddyhttp.MiddlewareHandler{
			quote: &Handler{app: app, offer: app.offers[0], log: requestLog{app.logger, app.logger}}, page: app.gates[0],
		} {
			request := httptest.NewRequest(http.MethodGet, "/v1/quote", nil)
			_ = handler.ServeHTTP(w, caddyhttp.PrepareRequest(request, caddy.NewReplacer(), w, new(caddyhttp.Server)), passed)
		}
		return quote, page
	}
	app := i.provision(gated("start /a/"))
	require.Empty(t, app.running())
	var requests sync.WaitGroup
	for range 8 {
		requests.Go(func() {
			quote, page := ask(app)
			if quote.Code != http.StatusPaymentRequired || page.Code != http.StatusPaymentRequired {
				t.Errorf("the answers are %d and %d", quote.Code, page.Code)
			}
		})
	}
	requests.Wait()
	require.Len(t, app.running(), 1)

	// A gate without an offer stays closed. The offers are served until Caddy refuses the configuration.
	quote, page := ask(i.provision(gated("offer three")))
	require.Equal(t, http.StatusPaymentRequired, quote.Code)
	require.Equal(t, http.StatusServiceUnavailable, page.Code)

	ended := i.provision(gated("start /a/"))
	require.NoError(t, ended.Cleanup())
	quote, page = ask(ended)
	require.Equal(t, http.StatusServiceUnavailable, quote.Code)
	require.Equal(t, "1", quote.Header().Get("Retry-After"))
	require.Equal(t, http.StatusServiceUnavailable, page.Code)
}

func TestGateOptionErrors(t *testing.T) {
	for options, want := range map[string]string{
		`"start": "course/"`:                     "begin a path with /, such as /course/",
		`"start": "//example.org/"`:              "start: this is not an absolute URL",
		`"start": "http://example.org/"`:         "is plain http",
		`"start": "/a?b"`:                        `start: "/a?b" has a query or a fragment`,
		`"start": "https://u:p@example.org/"`:    "user name or password",
		`"start": "/\u00fc"`:                     "percent-encode it",
		`"start": "{env.OFFER_TEST_UNSET}"`:      "start: {env.OFFER_TEST_UNSET} is not set; set it",
		`"access": 59000000000`:                  "access: 59s is too short; write at least 1m, such as 30d",
		`"access": -1`:                           "access: the duration is negative",
		`"start": "/a#b", "access": 59000000000`: "access: 59s is too short",
		`"charge": "second"`:                     `charge: "second" is not known; write 'charge first'`,
		`"price": 42`:                            `unknown field "price"`,
	} {
		config := `{"admin": {"disabled": true}, "apps": {"http": {"servers": {"srv0": {
			"listen": ["127.0.0.1:8402"], "routes": [{"handle": [{"handler": "pay_offer_gate", ` + options + `}]}]}}}}}`
		require.ErrorContains(t, caddy.Validate(decode(t, config)), want, options)
	}
}

// The operator uses the commands; each link has a browser of its own.
func TestCommandPassOpensGateUntilRevoked(t *testing.T) {
	i := newOperated(t, gated("start /course/"))
	before := i.get(i.service + "/v1/received").body
	out, err := i.payOffer("pass", "--for", "1d", "--note", "For the press")
	require.NoError(t, err, out)
	said := regexp.MustCompile(`(?s)^Pass ([a-z2-7]{10}) is valid until \S+Z\. .*\n(` + regexp.QuoteMeta(i.service) + `/course/\?pay_offer=\S+)\n$`).FindStringSubmatch(out)
	require.NotNil(t, said, out)
	id, link := said[1], said[2]

	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(address, cookie string) *http.Response {
		t.Helper()
		request := must(http.NewRequest(http.MethodGet, address, nil))(t)
		if cookie != "" {
			request.Header.Set("Cookie", cookie)
		}
		response := must(client.Do(request))(t)
		require.NoError(t, response.Body.Close())
		return response
	}
	var cookies []string
	for range 6 {
		entered := ask(link, "")
		require.Equal(t, http.StatusSeeOther, entered.StatusCode)
		require.Equal(t, "/course/", entered.Header.Get("Location"))
		cookie, _, _ := strings.Cut(entered.Header.Get("Set-Cookie"), ";")
		cookies = append(cookies, cookie)
	}
	require.Equal(t, http.StatusPaymentRequired, ask(i.service+"/course/", cookies[0]).StatusCode, "the sixth browser signs the first one out")
	for _, cookie := range cookies[1:] {
		require.Equal(t, http.StatusOK, ask(i.service+"/course/", cookie).StatusCode)
	}
	listed, err := i.payOffer("pass")
	require.NoError(t, err, listed)
	require.Regexp(t, `(?m)^\S+ +`+id+` +\S+Z +- +5 +For the press$`, listed)
	require.Equal(t, before, i.get(i.service+"/v1/received").body, "a pass is no payment")
	require.NotContains(t, i.log(), strings.TrimPrefix(link, i.service+"/course/?pay_offer="), "the link is a secret")

	out, err = i.payOffer("pass", "--revoke", id)
	require.NoError(t, err, out)
	require.Equal(t, http.StatusPaymentRequired, ask(link, "").StatusCode)
	listed = must(i.payOffer("pass"))(t)
	require.Regexp(t, `(?m)^\S+ +`+id+` +\S+Z +\S+Z +\d +For the press$`, listed)
}

func TestCommandPassErrors(t *testing.T) {
	i := newOperated(t, gated())
	for arguments, want := range map[string]string{
		"--for 10s":           "a pass cannot be valid for 10s; write 1m to 3650d, such as 30d",
		"--for 4000d":         "a pass cannot be valid for 4000d; write",
		"--for soon":          `--for: "soon" is not a duration; write for example 30d`,
		"--note x":            "--note belongs to a new pass; add --for",
		"--revoke none":       `there is no pass "none"; list them with 'caddy pay-offer pass'`,
		"--for 1d --revoke x": "exclude each other",
		"--for 1d --note " + strings.Repeat("n", 201): "the note is longer than 200 characters",
		"--for 1d --note a\x1bb":                      "",
		"--for 1d --offer other":                      "other",
	} {
		out, err := i.payOffer(append([]string{"pass"}, strings.Fields(arguments)...)...)
		require.ErrorContains(t, err, want, "%s: %s", arguments, out)
	}
}

func TestCommandPassNeedsGate(t *testing.T) {
	i := newOperated(t, smallest)
	_, err := i.payOffer("pass", "--for", "1d")
	require.ErrorContains(t, err, "has no gate, so a pass would open nothing; add the directive pay_offer_gate to a site")
}

func TestGatePlaceholdersAreDocumented(t *testing.T) {
	names := func(file, pattern string) []string {
		text, err := os.ReadFile(filepath.FromSlash(file))
		require.NoError(t, err)
		var found []string
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found = append(found, match[1])
		}
		slices.Sort(found)
		return found
	}
	set := names("gate_request.go", `case "http\.pay_offer\.(\w+)"`)
	require.Len(t, set, 4)
	require.Equal(t, set, names("gate.go", "(?m)^// `{http\\.pay_offer\\.(\\w+)}`"))
	require.Equal(t, set, names("docs/guides/members-area.md", "(?m)^\\| `{http\\.pay_offer\\.(\\w+)}`"))
}
