package web

import (
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// pass makes a pass that is valid for an hour.
func (g *gated) pass(id string) (code string) {
	g.t.Helper()
	require.NoError(g.t, g.ledger.InsertPass(g.t.Context(), ledger.Pass{ID: id, Offer: g.world.offer.ID, ExpiresAt: g.now.Unix() + 3600}))
	return g.server.Keeper.PassCode(id)
}

// The link of a pass that was revoked leads to the seller: there is no receipt with another link.
func TestRevokedPassLeadsToSeller(t *testing.T) {
	g := newGated(t)
	link := "/members/?pay_offer=" + g.pass("press")
	require.Equal(t, http.StatusSeeOther, g.ask("GET", link).StatusCode)
	require.NoError(t, g.ledger.RevokePass(t.Context(), g.world.offer.ID, "press"))
	g.now = g.now.Add(time.Minute)
	require.Contains(t, read(t, g.ask("GET", link)), "the pass of this entry link has ended or was revoked; ask the seller for another one")
	for _, l := range text.Languages {
		page := read(t, g.ask("GET", link+"&lang="+l.Tag, "Accept", browser))
		require.Contains(t, page, "<h1>"+html.EscapeString(l.Text("gate.ended"))+"</h1>")
		require.Contains(t, page, `<p role="status">`+html.EscapeString(l.Text("gate.another"))+"</p>")
		require.Contains(t, page, `<a class="button" href="mailto:pay@example.org">`)
		require.NotContains(t, page, l.Text("gate.renew", "open", l.Text("gate.open")))
	}
}

// payer is who the handlers behind the gate see.
func (g *gated) payer(cookie string) string {
	g.t.Helper()
	grant, err := g.server.Keeper.ByCookie(g.t.Context(), cookie[strings.Index(cookie, "=")+1:], time.Hour)
	require.NoError(g.t, err)
	return grant.Payment
}

var links = regexp.MustCompile(`href="([^"]*)"`)

// asked requires the question whether to replace a cookie, and returns its links.
func (g *gated) asked(res *http.Response) (keep, replace string) {
	g.t.Helper()
	body := read(g.t, res)
	require.Equal(g.t, http.StatusConflict, res.StatusCode, body)
	require.Empty(g.t, res.Header.Get("Set-Cookie"))
	require.Equal(g.t, "no-store", res.Header.Get("Cache-Control"))
	require.Equal(g.t, "no-referrer", res.Header.Get("Referrer-Policy"))
	require.Contains(g.t, res.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
	require.NotContains(g.t, body, behindGate)
	found := slices.DeleteFunc(links.FindAllStringSubmatch(body, -1), func(link []string) bool { return !strings.HasPrefix(link[1], "/") })
	require.Len(g.t, found, 2)
	return html.UnescapeString(found[0][1]), html.UnescapeString(found[1][1])
}

func TestGateAsksBeforeReplacingPayment(t *testing.T) {
	for path, keep := range map[string]string{"/members/": "/members/", "/members/a?x=1&y=%22": "/members/a?x=1&y=%22", "//evil.example/x": "/.//evil.example/x"} {
		g := newGated(t)
		cookie := g.enters(g.pays())
		foreign := gate.EntryLink(path, g.pass("press"))
		for _, accept := range accepts {
			got, replace := g.asked(g.ask("GET", foreign, "Cookie", cookie, "Accept", accept))
			require.Equal(t, keep, got)
			require.True(t, strings.HasPrefix(replace, gate.EntryLink(keep, "")), replace)
		}
		require.Equal(t, behindGate, read(t, g.ask("GET", keep, "Cookie", cookie)))
		_, replace := g.asked(g.ask("GET", foreign, "Cookie", cookie))

		stranger := g.enters(g.pays())
		g.requireClosed(402, "GET", replace)
		res := g.ask("GET", replace, "Cookie", stranger)
		require.Equal(t, http.StatusSeeOther, res.StatusCode)
		require.Empty(t, res.Header.Get("Set-Cookie"), "an answer of another browser")
		require.Equal(t, "pi_1", g.payer(stranger))

		res = g.ask("GET", replace, "Cookie", cookie)
		require.Equal(t, http.StatusSeeOther, res.StatusCode)
		require.Equal(t, keep, res.Header.Get("Location"))
		require.Equal(t, "pass:press", g.payer(res.Cookies()[0].String()[:strings.Index(res.Cookies()[0].String(), ";")]))
		require.Empty(t, g.visits[1:], "the application sees no code")
	}
}

func TestGateSamePaymentNeedsNoQuestion(t *testing.T) {
	g := newGated(t)
	h := g.pays()
	cookie := g.enters(h)
	res := g.ask("GET", gate.EntryLink("/members/", g.server.Keeper.Code(h)), "Cookie", cookie)
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	require.NotEmpty(t, res.Header.Get("Set-Cookie"))

	code := g.pass("press")
	g.ledger.away = true
	g.requireClosed(503, "GET", gate.EntryLink("/members/", code), "Cookie", cookie)
	g.ledger.away = false
	require.NoError(t, g.server.Keeper.End(t.Context(), h))
	res = g.ask("GET", gate.EntryLink("/members/", code), "Cookie", cookie)
	require.Equal(t, http.StatusSeeOther, res.StatusCode, "signed out")
	require.Equal(t, "pass:press", g.payer(res.Header.Get("Set-Cookie")[:strings.Index(res.Header.Get("Set-Cookie"), ";")]))
}

func TestGateQuestionLanguage(t *testing.T) {
	g := newGated(t)
	cookie, code := g.enters(g.pays()), g.pass("press")
	said := map[string]bool{}
	for _, l := range text.Languages {
		tag := l.Tag
		res := g.ask("GET", gate.EntryLink("/members/", code), "Cookie", cookie, "Accept-Language", tag)
		require.Equal(t, tag, res.Header.Get("Content-Language"))
		body := read(t, res)
		require.Contains(t, body, `<html lang="`+tag+`">`)
		for _, key := range []string{"gate.replace.ask", "gate.replace.why", "gate.replace.keep", "gate.replace.switch"} {
			require.Contains(t, html.UnescapeString(body), l.Text(key))
			said[l.Text(key)] = true
		}
	}
	require.Len(t, said, 16)
}
