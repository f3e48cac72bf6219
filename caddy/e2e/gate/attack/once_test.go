package attack

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/mpp"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// atOnce calls a function many times at once.
func (s *shop) atOnce(count int, call func() server.Answer) []server.Answer {
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
func TestAHundredCopiesOfAPaymentAreOneCharge(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	charged, delivered := 0, 0
	for name, way := range ways {
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

// When a payer signs out all browsers on the receipt's page, the payment's header is no pass any more, and is not charged again.
func TestSigningOutEndsThePaymentHeader(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	charged := 0
	for name, way := range ways {
		if way.at != atGate || !way.again {
			continue
		}
		p := s.sign(atGate)
		second := *p // the answer to a second authorization names the receipt of the first
		second.Nonce = common.BytesToHash([]byte(name))
		second.signature = second.Sign(s, p.buyer)
		own := way.request(s, p)
		require.True(t, s.delivers(s.send(own, nil)), name)
		require.True(t, s.delivers(s.send(own, nil)), name)
		charged++
		receipt := s.receiptOf(s.send(s.toSponsor(s.inHeader("Payment-Signature", second.v2(""))), nil))
		a := s.ask("POST", receipt+"/sign-out", nil)
		require.Equal(t, http.StatusFound, a.Status, "%s: %s", name, a.Body)
		for _, a := range s.atOnce(60, func() server.Answer { return s.send(own, nil) }) {
			require.Equal(t, http.StatusConflict, a.Status, "%s: %s", name, a.Body)
			s.requireClosed(a, name)
		}
		a = s.ask("GET", s.url("app", "/?pay_offer="+s.code(receipt)), nil)
		require.True(t, s.delivers(s.ask("GET", own.url, s.cookie(a))), "%s: the receipt lets its payer in", name)
		require.False(t, s.delivers(s.send(own, nil)), name)
		require.Equal(t, charged, s.charges(), name)
	}
	require.Equal(t, 2, charged)
}

// The application gets none of the credentials, by any method, whether they open or not.
func TestTheApplicationGetsNoCredentials(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	var secrets []string
	address := s.url("app", "/thing?a=1&b=2")
	for name, way := range ways {
		if way.at != atGate {
			continue
		}
		own := way.request(s, s.sign(atGate))
		own.url = address
		a := s.send(own, nil)
		require.True(t, s.delivers(a), name)
		cookie := s.cookie(a)
		for header, values := range own.header {
			secrets = append(secrets, values...)
			cookie[header] = values
		}
		value := cookie.Get("Cookie")
		secrets = append(secrets, value)
		cookie["Cookie"] = []string{"before=1; " + value + "; between=2", value + "; after=3"}
		code := s.code(s.receipt())
		secrets = append(secrets, code)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"} {
			for _, query := range []string{"?a=1&b=2", "?a=1&pay_offer=" + code + "&b=2", "?pay_offer=" + code} {
				s.ask(method, s.url("app", "/thing"+query), cookie)
			}
		}
		own.url = s.url("app", "/missing")
		missing := http.StatusNotFound
		if !way.again {
			missing = http.StatusConflict
		}
		require.Equal(t, missing, s.send(own, nil).Status, "%s: what does not exist is passed on", name)
	}
	requests := s.app.requests()
	require.NotEmpty(t, requests)
	kept := false
	for _, r := range requests {
		kept = kept || strings.Contains(r, "before=1; between=2; after=3")
		require.NotContains(t, r, "pay_offer")
		require.NotContains(t, r, "Payment-Signature:")
		for _, secret := range secrets {
			require.NotContains(t, r, secret)
		}
	}
	require.True(t, kept, "other cookies stay")
	charges := s.charges()
	require.Equal(t, 6, charges, "3 at the gate, 3 at the sponsor's address")
	s.process.Terminate()
	s.process.Await(t)
	log := s.process.Log()
	require.Contains(t, log, "handled request")
	for _, secret := range secrets {
		_, value, _ := strings.Cut(secret, "=")
		require.NotContains(t, log, secret)
		if len(value) > 20 {
			require.NotContains(t, log, value)
		}
	}
	t.Logf("%d requests reached the application, of %d secrets none", len(requests), len(secrets))
}

// A payment that a request cannot make, or that comes with another, is not charged.
func TestAPaymentThatCannotBeMadeIsNotCharged(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	p, q := s.sign(atGate), s.sign(atGate)
	x402, other := s.inHeader("Payment-Signature", p.v2(p.token)), s.inHeader("Payment-Signature", q.v2(q.token))
	credential := s.authorization(p.challenge.Credential(p.Authorization, p.signature))
	more := func(all ...http.Header) http.Header {
		merged := http.Header{}
		for _, h := range all {
			for name, values := range h {
				merged[name] = append(merged[name], values...)
			}
		}
		return merged
	}
	upgrade := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
	for _, c := range []struct {
		name, method, path string
		header             http.Header
		status             int
	}{
		{"HEAD", "HEAD", "/", x402, 402},
		{"HEAD with a credential", "HEAD", "/", credential, 402},
		{"an upgrade", "GET", "/", more(x402, upgrade), 402},
		{"an upgrade with a credential", "GET", "/", more(credential, upgrade), 402},
		{"OPTIONS", "OPTIONS", "/", x402, 200},
		{"a payment twice", "GET", "/", more(x402, x402), 400},
		{"two payments", "GET", "/", more(x402, other), 400},
		{"two versions", "GET", "/", more(x402, s.inHeader("X-Payment", p.v1())), 400},
		{"x402 and a credential", "GET", "/", more(x402, credential), 400},
		{"two credentials", "GET", "/", more(credential, s.authorization(q.challenge.Credential(q.Authorization, q.signature))), 400},
		{"no payment", "GET", "/", http.Header{"Payment-Signature": {"x"}}, 400},
		{"an empty payment", "GET", "/", http.Header{"Payment-Signature": {""}}, 400},
		{"no credential", "GET", "/", http.Header{"Authorization": {"Payment x"}}, 402},
		{"what does not exist", "GET", "/missing", x402, 404},
		{"64 KB", "GET", "/", http.Header{"Payment-Signature": {strings.Repeat("e", 64<<10)}}, 431},
	} {
		a := s.ask(c.method, s.url("app", c.path), c.header)
		require.NotContains(t, a.Body, s.content, c.name)
		require.Empty(t, a.Header.Get("Set-Cookie"), c.name)
		require.Equal(t, c.status, a.Status, "%s: %s", c.name, a.Body)
	}
	text := s.raw("CONNECT app.localhost:80 HTTP/1.1", "app.localhost", "Payment-Signature: "+x402.Get("Payment-Signature"))
	require.NotContains(t, text, s.content)
	require.Zero(t, s.charges())
	require.True(t, s.delivers(s.ask("GET", s.url("app", "/"), x402)), "it is good all the same")
}

// Of several cookies of one name, at most the first counts; the others harm nobody. A long one is no pass.
func TestTossedCookiesOpenNothing(t *testing.T) {
	t.Parallel()
	s := openShop(t)
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
func TestAPaymentForAnotherOfferOpensNothing(t *testing.T) {
	t.Parallel()
	s := openShop(t)
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
