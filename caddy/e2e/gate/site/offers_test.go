package site

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// Two gates of one offer: one payment opens both, each for its own time.
func TestTwoGatesOfAnOfferOpenForTheirOwnTimes(t *testing.T) {
	s := openShop(t, `
http://site.localhost:{PORT} {
	pay_offer_gate /day/* {
		start /day/
		access 24h
	}
	pay_offer_gate /year/* {
		start /year/here
		access 8760h
	}
	respond "{http.pay_offer.expires} `+secret+`"
}
`, nil)
	v := s.visitor()
	day, year := v.get("/day/x"), v.get("/year/x?y=1")
	requireTerms(t, day, "/day/x")
	requireTerms(t, year, "/year/x")
	require.Equal(t, s.site+"/year/x?y=1", v.wayBack(year, "gates"))
	expires := func(target string) time.Time {
		t.Helper()
		text, _, _ := strings.Cut(v.get(target).Body, " ")
		at := lab.Must(time.Parse(time.RFC3339, text))(t)
		return at
	}
	require.Equal(t, 364*24*time.Hour, expires("/year/x").Sub(expires("/day/y")))
	address, _ := s.visitor().enter(s.sell("nowhere"))
	require.Equal(t, s.site+"/day/", address, "without a wanted address a payer arrives at the first start")
	require.Equal(t, s.site+"/day/x", s.visitor().wayBack(day, "another"))

	// A payment of two days ago opens only the second gate.
	event := strings.Replace(server.CardEvent("checkout.session.completed", "old", server.Checkout("old", "paid", price)),
		`"created":`, `"created":`+strconv.FormatInt(time.Now().Add(-48*time.Hour).Unix(), 10)+`,"was":`, 1)
	old := s.visitor()
	old.enter(s.sellTo(s.base, "old", event, server.CardHeader(event, cardSecret)))
	require.Contains(t, old.get("/year/x").Body, secret)
	requireTerms(t, old.get("/day/x"), "the day is over")
}

// Two offers have gates on one host. What opens the gates of one never opens those of the other.
func TestAnotherOfferOpensNothing(t *testing.T) {
	payee := chain.NewAddress(t)
	s := openShop(t, `
http://other.localhost:{PORT} {
	pay_offer {
		id other
		base_url http://other.localhost:{PORT}
		site_url {SITE}
		card https://checkout.example/other {
			payment_link plink_2
			webhook_secret whsec_of_the_other_rail_456
		}
		usdc base-sepolia {OTHER} {
			facilitator {FACILITATOR}
			rpc off
		}
	}
	respond 404
}
http://site.localhost:{PORT} {
	pay_offer_gate /a/* {
		offer shop
		start /a/
	}
	pay_offer_gate /b/* {
		offer other
		start /b/
	}
	respond "{path} `+secret+`"
}
`, nil, "{OTHER}", payee.Hex())
	other := strings.Replace(s.base, "localhost", "other.localhost", 1)
	event := strings.Replace(server.CardEvent("checkout.session.completed", "b", server.Checkout("b", "paid", price)), "plink_1", "plink_2", 1)
	receipts := map[string]string{"/a/": s.sell("a"), "/b/": s.sellTo(other, "b", event, server.CardHeader(event, "whsec_of_the_other_rail_456"))}
	site := lab.Must(url.Parse(s.site))(t)
	cookies := map[string]*http.Cookie{}
	for own, receipt := range receipts {
		foreign := map[string]string{"/a/": "/b/", "/b/": "/a/"}[own]
		link := func() string {
			t.Helper()
			a := s.visitor().do(http.MethodGet, receipt+"/enter", "", nil)
			require.Equal(t, http.StatusFound, a.Status)
			return a.Header.Get("Location")
		}
		code := link()[len(s.site+own+"?"):]
		requireTerms(t, s.visitor().get(foreign+"?"+code), "the code of "+own+" at "+foreign)
		require.Equal(t, http.StatusSeeOther, s.visitor().get(own+"?"+code).Status, "the refusal did not use it up")

		v := s.visitor()
		address, a := v.enter(receipt)
		require.Equal(t, s.site+own, address)
		require.Equal(t, own+" "+secret, a.Body)
		requireTerms(t, v.get(foreign), "the cookie of "+own+" at "+foreign)
		require.Len(t, v.client.Jar.Cookies(site), 1)
		cookies[own] = v.client.Jar.Cookies(site)[0]
	}
	require.NotEqual(t, cookies["/a/"].Name, cookies["/b/"].Name)

	v := s.visitor()
	swapped := "; " + cookies["/a/"].Name + "=" + cookies["/b/"].Value + "; " + cookies["/b/"].Name + "=" + cookies["/a/"].Value
	for _, target := range []string{"/a/", "/b/"} {
		requireTerms(t, v.get(target, "Cookie", swapped[2:]), "the cookies with each other's names")
		right := cookies[target].Name + "=" + cookies[target].Value
		require.Equal(t, target+" "+secret, v.get(target, "Cookie", right).Body)
	}
	both := lab.Must(cookiejar.New(nil))(t)
	both.SetCookies(site, []*http.Cookie{cookies["/a/"], cookies["/b/"]})
	v.client.Jar = both
	require.Equal(t, "/a/ "+secret, v.get("/a/").Body)
	require.Equal(t, "/b/ "+secret, v.get("/b/").Body)

	// A payment by x402 opens the gates of the offer to which it pays.
	for own, payee := range map[string]common.Address{"/a/": s.payee, "/b/": payee} {
		foreign := map[string]string{"/a/": "/b/", "/b/": "/a/"}[own]
		payment, agent, charged := s.paymentTo(payee), s.visitor(), s.charged()
		a := agent.do(http.MethodGet, s.site+foreign, "", payment)
		require.GreaterOrEqual(t, a.Status, 400)
		require.NotContains(t, a.Body, secret)
		require.Equal(t, charged, s.charged())
		require.Equal(t, own+" "+secret, agent.do(http.MethodGet, s.site+own, "", payment).Body)
		require.Equal(t, charged+1, s.charged())
		requireTerms(t, agent.get(foreign), "the cookie of an agent")
		a = agent.do(http.MethodGet, s.site+foreign, "", payment)
		require.GreaterOrEqual(t, a.Status, 400)
		require.NotContains(t, a.Body, secret)
	}
}
