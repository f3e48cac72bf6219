package attack

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// elsewhere are request targets that a browser or a server may take for the address of another host.
var elsewhere = []string{
	"http://evil.example/x", "http://evil.example", "https://evil.example:443/x", "HTTP://EVIL.example/", "http:evil.example/x", "http:/evil.example", "http:///evil.example",
	"evil.example:443/x", "evil.example/x", "javascript:alert(1)", "data:text/html,x", "x:y", "*",
	"//evil.example", "//evil.example/", "///evil.example", "////evil.example//", "/\\evil.example", "\\\\evil.example", "/\\/evil.example", "/%5cevil.example", "/%5Cevil.example",
	"/%2fevil.example", "/%2F%2Fevil.example", "/.//evil.example", "/..//evil.example", "/x/..//evil.example", "/./\\evil.example", "//@evil.example", "//evil.example\\@any.localhost",
	"/\t/evil.example", "/\tevil.example", "/%09/evil.example", "/%0d%0aLocation:%20http://evil.example", "/%0d%0a%0d%0a<script>", "/\x00/evil.example", "/\x7f/evil.example", "/%00//evil.example",
	"//evil%2eexample", "/;//evil.example", "/?//evil.example", "//evil.example?x", "/x#//evil.example", "/ｅvil.example", "//[::1]/", "//127.0.0.1:1/", "/x:y", "/http://evil.example/",
	"/" + strings.Repeat("/", 3000) + "evil.example", "/" + strings.Repeat("x", 6000) + "//evil.example",
}

// landsOn is the host to which a browser goes from a page for a Location (WHATWG URL: it drops tabs and line breaks, and reads
// a backslash as a slash).
func (s *shop) landsOn(page, location string) string {
	s.Helper()
	base, err := url.Parse(page)
	require.NoError(s, err)
	u, err := base.Parse(strings.NewReplacer("\t", "", "\n", "", "\r", "", `\`, "/").Replace(location))
	require.NoError(s, err, location)
	return u.Scheme + "://" + u.Host
}

// Whatever address a request claims to want, the exchange of a code and the way through the payment page end at the gate.
func TestNoAddressLeadsAPayerElsewhere(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	receipt := s.receipt()
	exchanged, passed := 0, 0
	for _, target := range elsewhere {
		for _, host := range []string{"any.localhost", "any.localhost:" + s.any, "any.localhost.evil.example"} {
			if strings.HasSuffix(host, "evil.example") && !strings.HasPrefix(target, "/") {
				continue // the request says twice that it is for another host, and goes to its own
			}
			separator := "?"
			if strings.Contains(target, "?") {
				separator = "&"
			}
			answer := s.atAny("GET "+target+separator+"pay_offer="+s.code(receipt)+" HTTP/1.1", host)
			if answer != nil && answer.StatusCode == http.StatusSeeOther {
				exchanged++
				location := answer.Header.Get("Location")
				require.Equal(t, "http://page.example", s.landsOn("http://page.example/", location), "%q leads to %q", target, location)
				require.NotContains(t, location, "pay_offer=")
			}

			answer = s.atAny("GET "+target+" HTTP/1.1", host)
			if answer == nil || answer.StatusCode != http.StatusPaymentRequired {
				continue
			}
			passed++
			link := answer.Header.Get("Link")
			require.True(t, strings.HasPrefix(link, "<http://localhost:"+s.port+"/v1/pay?back="), link)
			back := s.ask("GET", link[1:strings.Index(link, ">")], http.Header{"Accept": {"text/html"}})
			require.Equal(t, "/v1/pay", back.Header.Get("Location"), "%.200q: %d %.300s", target, back.Status, back.Body)
			entry := s.ask("GET", receipt+"/enter", s.cookie(back)).Header.Get("Location")
			require.Equal(t, "http://any.localhost:"+s.any, s.landsOn("http://page.example/", entry), "%q leads to %q", target, entry)
			entered := s.ask("GET", entry, nil)
			require.Contains(t, []int{http.StatusSeeOther, http.StatusPaymentRequired}, entered.Status)
			if entered.Status == http.StatusSeeOther {
				require.Equal(t, "http://page.example", s.landsOn("http://page.example/", entered.Header.Get("Location")), target)
			}
		}
	}
	require.Positive(t, exchanged)
	t.Logf("%d exchanges of a code and %d ways through the payment page, of %d addresses", exchanged, passed, len(elsewhere))
}

// atAny sends a raw request to the site that answers for all hosts.
func (s *shop) atAny(line, host string) *http.Response {
	s.Helper()
	if !strings.HasPrefix(host, "any.") {
		host = "any." + host
	}
	return answerTo(s.raw(line, host), "GET")
}

// A forged or foreign way back leads to the start of the gate, and is not kept.
func TestAForgedWayBackIsNotKept(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	receipt := s.receipt()
	genuine := s.ask("GET", s.url("app", "/wanted?q=1"), nil).Header.Get("Link")
	back, err := url.QueryUnescape(genuine[strings.Index(genuine, "back=")+len("back=") : strings.Index(genuine, ">")])
	require.NoError(t, err)
	foreign := s.ask("GET", s.url("second", "/wanted"), nil).Header.Get("Link")
	other := foreign[strings.Index(foreign, "back=")+len("back=") : strings.Index(foreign, ">")]
	forgeries := []string{"https://evil.example/", "//evil.example", "/wanted", back[1:], back + "x", strings.ToUpper(back), other, s.code(receipt), strings.Repeat("x", 4_000)}
	for _, forged := range forgeries {
		a := s.ask("GET", s.url("members", "/v1/pay?back="+url.QueryEscape(forged)), http.Header{"Accept": {"text/html"}})
		require.Empty(t, a.Header.Get("Set-Cookie"), forged)
		a = s.ask("GET", receipt+"/enter", http.Header{"Cookie": {"pay_offer_back=" + forged}})
		require.Equal(t, http.StatusFound, a.Status, "%.200q: %s", forged, a.Body)
		entry := a.Header.Get("Location")
		require.Contains(t, []string{"http://any.localhost:" + s.any, s.url("app", ""), s.url("shop", ""), s.url("proxied", "")}, s.landsOn("http://page.example/", entry))
		require.NotContains(t, entry, "wanted", forged)
	}
	entry := s.ask("GET", receipt+"/enter", http.Header{"Cookie": {"pay_offer_back=" + back}}).Header.Get("Location")
	require.True(t, strings.HasPrefix(entry, s.url("app", "/wanted?q=1&pay_offer=")), entry)
	t.Logf("%d forged ways back", len(forgeries))
}

// A code is exchanged once, whoever else tries at the same time.
func TestACodeIsExchangedOnce(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	link := s.url("app", "/?pay_offer="+s.code(s.receipt()))
	cookies := 0
	for _, a := range s.atOnce(50, func() server.Answer { return s.ask("GET", link, nil) }) {
		if a.Header.Get("Set-Cookie") == "" {
			require.Equal(t, http.StatusPaymentRequired, a.Status, a.Body)
			continue
		}
		cookies++
		require.Equal(t, http.StatusSeeOther, a.Status)
		require.Equal(t, "/", a.Header.Get("Location"))
		require.Contains(t, s.ask("GET", s.url("app", "/"), s.cookie(a)).Body, s.content)
		require.Equal(t, http.StatusSeeOther, s.ask("GET", link, s.cookie(a)).Status, "the browser that used it passes")
	}
	require.Equal(t, 1, cookies, "of 50 uses at once")
	require.Equal(t, http.StatusPaymentRequired, s.ask("GET", link, nil).Status)
}
