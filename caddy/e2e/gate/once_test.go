package gate

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/mpp"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// atOnce calls a function many times at once.
func (f *fort) atOnce(count int, call func() server.Answer) []server.Answer {
	answers := make([]server.Answer, count)
	var work sync.WaitGroup
	begin := make(chan struct{})
	for n := range count {
		work.Go(func() {
			<-begin
			answers[n] = call()
		})
	}
	close(begin)
	work.Wait()
	return answers
}

// crowd is how many requests come at once.
const crowd = 100

// A hundred copies of a payment are one charge, and its payer gets the content by each of them, at once or later. A hundred
// copies of the cookie pass.
func TestHundredPaymentCopiesChargedOnce(t *testing.T) {
	t.Parallel()
	s := openFort(t)
	charged, delivered := 0, 0
	for name, way := range transports {
		if way.at != atGate {
			continue
		}
		own := way.request(s, s.sign(atGate))
		var cookies []http.Header
		for _, a := range s.atOnce(crowd, func() server.Answer { return s.send(own, nil) }) {
			switch {
			case s.delivers(a):
				delivered++
				if a.Header.Get("Set-Cookie") != "" {
					cookies = append(cookies, s.cookie(a))
				}
			case way.again:
				require.NotEmpty(t, a.Header.Get("Retry-After"), "%s: %d %s", name, a.Status, a.Body)
			default:
				require.Contains(t, []int{http.StatusConflict, http.StatusServiceUnavailable}, a.Status, "%s: %s", name, a.Body)
			}
		}
		charged++
		require.Equal(t, charged, s.charges(), name)
		require.Equal(t, way.again, s.delivers(s.send(own, nil)), name)
		// Each answer has a cookie, of which the newest pass, so that a payment is not shared.
		cookies = slices.DeleteFunc(cookies, func(c http.Header) bool { return !s.delivers(s.ask("GET", own.url, c)) })
		require.NotEmpty(t, cookies, name)
		require.LessOrEqual(t, len(cookies), 5, name)
		for _, a := range s.atOnce(crowd, func() server.Answer { return s.ask("GET", own.url, cookies[0]) }) {
			require.True(t, s.delivers(a), "%s: a copy of the cookie: %d %s", name, a.Status, a.Body)
		}
	}
	t.Logf("%d payments, each %d times at once: %d answers with content", charged, crowd, delivered)
}

// Of several cookies of one name, at most the first counts; the others harm nobody. A long one is no pass.
func TestInjectedCookiesOpenNothing(t *testing.T) {
	t.Parallel()
	s := openFort(t)
	_, paid := s.pays()
	genuine := s.cookie(paid).Get("Cookie")
	name, value, _ := strings.Cut(genuine, "=")
	long, longest := strings.Repeat("x", 4<<10), strings.Repeat("x", 64<<10)
	for _, c := range []struct {
		cookies []string
		opens   bool
	}{
		{[]string{genuine}, true},
		{[]string{genuine + "; " + name + "=forged"}, true},
		{[]string{genuine, name + "=forged"}, true},
		{[]string{"a=" + long + "; " + genuine}, true},
		{[]string{name + "=forged; " + genuine}, false},
		{[]string{name + "=forged", genuine}, false},
		{[]string{name + "=" + long}, false},
		{[]string{name + "=" + longest}, false},
		{[]string{name + "=" + value + "x"}, false},
		{[]string{name + "=" + value[1:]}, false},
		{[]string{name + `="` + value + `"`}, false},
		{[]string{strings.ToUpper(name) + "=" + value}, false},
		{[]string{"__Host-" + genuine}, false},
		{[]string{"x" + genuine}, false},
		{[]string{name}, false},
	} {
		a := s.ask("GET", s.url("app", "/"), http.Header{"Cookie": c.cookies})
		require.Equal(t, c.opens, s.delivers(a), "%.200v: %d", c.cookies, a.Status)
		if !c.opens {
			require.Contains(t, []int{http.StatusPaymentRequired, http.StatusRequestHeaderFieldsTooLarge}, a.Status, "%.200v", c.cookies)
		}
	}
}

// A payment for an offer, or an answer to its challenge, opens no gate of another offer.
func TestPaymentForOtherOfferOpensNothing(t *testing.T) {
	t.Parallel()
	s := openFort(t)
	p, _ := s.pays()
	for name, header := range map[string]http.Header{
		"x402":      s.inHeader("Payment-Signature", p.v2(p.token)),
		"version 1": s.inHeader("X-Payment", p.v1()),
		"MPP":       s.authorization(p.challenge.Credential(p.Authorization, p.signature)),
	} {
		a := s.ask("GET", s.url("second", "/"), header)
		s.requireClosed(a, name)
	}
	// A challenge of one gate is no challenge of another: its realm is another host.
	q := s.sign(atGate)
	a := s.ask("GET", s.url("any", "/"), s.authorization(q.challenge.Credential(q.Authorization, q.signature)))
	require.Equal(t, http.StatusPaymentRequired, a.Status, a.Body)
	challenged := mpp.Challenged(t, a.Header, q.Network)
	require.NotEqual(t, q.challenge["realm"], challenged["realm"])
	require.Equal(t, 1, s.charges())
}

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
func (f *fort) landsOn(page, location string) string {
	f.Helper()
	base, err := url.Parse(page)
	require.NoError(f, err)
	u, err := base.Parse(strings.NewReplacer("\t", "", "\n", "", "\r", "", `\`, "/").Replace(location))
	require.NoError(f, err, location)
	return u.Scheme + "://" + u.Host
}

// Whatever address a request claims to want, the exchange of a code and the way through the payment page end at the gate.
func TestGateNeverRedirectsToOtherHost(t *testing.T) {
	t.Parallel()
	s := openFort(t)
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
func (f *fort) atAny(line, host string) *http.Response {
	f.Helper()
	if !strings.HasPrefix(host, "any.") {
		host = "any." + host
	}
	return answerTo(f.raw(line, host), "GET")
}

// A forged or foreign way back leads to the start of the gate, and is not kept.
func TestForgedReturnURLIsIgnored(t *testing.T) {
	t.Parallel()
	s := openFort(t)
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
