package web

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const behindGate = "the content"

// gated is a server with a gate before a site on another host.
type gated struct {
	world *world
	*Gate
	t      *testing.T
	ledger *unsteady
	card   ledger.Account
	now    time.Time
	// site answers what passes; by default with the content. visits are the methods and headers that reached it.
	site   func(w http.ResponseWriter, r *http.Request) error
	visits []string
}

// unsteady is a ledger that cannot be read at times: if it is away, after the calls that are left.
type unsteady struct {
	*ledger.Ledger
	away bool
	left int
}

func (u *unsteady) Payment(ctx context.Context, offerID, account, name string) (ledger.Payment, bool, error) {
	if u.left--; u.away && u.left < 0 {
		return ledger.Payment{}, false, errors.New("away")
	}
	return u.Ledger.Payment(ctx, offerID, account, name)
}

func newGated(t *testing.T) *gated { return newGatedOffer(t, "") }

// newGatedOffer is newGated of an offer with an id.
func newGatedOffer(t *testing.T, id string) *gated {
	t.Helper()
	w := newWorld(t)
	w.offer.ID = cmp.Or(id, w.offer.ID)
	w.offer.Gates = []offer.Gate{{Start: "https://www.example.org/members/", Access: time.Hour}}
	g := &gated{world: w, t: t, now: at, ledger: &unsteady{Ledger: emptyLedger(t, "sqlite")}}
	g.card = ledger.Account{Offer: w.offer.ID, ID: w.offer.AccountOf(w.offer.Card), Rail: "card"}
	require.NoError(t, g.ledger.Register(t.Context(), g.card))
	c := w.config()
	c.Receipts, c.Now = g.ledger, func() time.Time { return g.now }
	s := must(New(c))(t)
	g.Gate = s.Gate(w.offer.Gates[0])
	return g
}

// pays records a card payment, with what went back.
func (g *gated) pays(returns ...ledger.Return) gate.Holder {
	g.t.Helper()
	rows := must(g.ledger.Record(g.t.Context(), nil, ledger.Observation{
		Offer: g.world.offer.ID, Account: g.card.ID, Rail: "card", ExternalID: "pi_1", Via: "link", Asset: "USD", Amount: 42_00, USDCents: cents(42_00),
		ValueBasis: ledger.BasisFace, State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelSigned, OccurredAt: at.Unix(), Cause: "webhook", Returns: returns,
	}))(g.t)
	return gate.HolderOf(rows[0])
}

// ask requests a path of the site with headers as name and value in turn.
func (g *gated) ask(method, path string, headers ...string) *http.Response {
	g.t.Helper()
	r := httptest.NewRequest(method, "https://www.example.org"+path, nil)
	for n := 0; n < len(headers); n += 2 {
		r.Header.Add(headers[n], headers[n+1])
	}
	w := httptest.NewRecorder()
	err := g.Serve(w, r, Visit{URI: path, Passage: new(Passage), Next: g.next})
	if status, ok := errors.AsType[Status](err); ok {
		w.WriteHeader(int(status))
	} else {
		require.NoError(g.t, err)
	}
	res := w.Result()
	res.Body = io.NopCloser(strings.NewReader(w.Body.String()))
	return res
}

// next is the site.
func (g *gated) next(w http.ResponseWriter, r *http.Request) error {
	var text strings.Builder
	text.WriteString(r.Method + " " + r.URL.String() + "\n")
	_ = r.Header.Write(&text)
	g.visits = append(g.visits, text.String())
	if g.site != nil {
		return g.site(w, r)
	}
	_, err := io.WriteString(w, behindGate)
	return err
}

// enters exchanges a new code for a cookie.
func (g *gated) enters(h gate.Holder) (cookie string) {
	g.t.Helper()
	res := g.ask("GET", "/members/a?x=1&pay_offer="+g.server.Keeper.Code(h)+"&y=2")
	require.Equal(g.t, http.StatusSeeOther, res.StatusCode)
	require.Equal(g.t, "/members/a?x=1&y=2", res.Header.Get("Location"))
	require.Equal(g.t, "no-store", res.Header.Get("Cache-Control"))
	require.Equal(g.t, "no-referrer", res.Header.Get("Referrer-Policy"))
	require.Len(g.t, res.Cookies(), 1)
	return res.Cookies()[0].Name + "=" + res.Cookies()[0].Value
}

func (g *gated) requireClosed(status int, method, path string, headers ...string) {
	g.t.Helper()
	res := g.ask(method, path, headers...)
	require.Equal(g.t, status, res.StatusCode)
	require.NotContains(g.t, read(g.t, res), behindGate)
	require.Empty(g.t, res.Header.Get("Set-Cookie"))
}

func TestGateClosesAfterRefund(t *testing.T) {
	g := newGated(t)
	h := g.pays()
	cookie := g.enters(h)
	require.Equal(t, behindGate, read(t, g.ask("GET", "/members/", "Cookie", cookie)))
	for _, refund := range []ledger.Return{
		{ID: "re_1", Kind: ledger.ReturnRefund, Amount: 42_00, At: at.Unix()}, // pending
		{ID: "re_1", Kind: ledger.ReturnRefund, Amount: 42_00, Gone: true, At: at.Unix(), Rank: 1},
	} {
		g.pays(refund)
		g.now = g.now.Add(10 * time.Second)
		for range 2 {
			g.requireClosed(402, "GET", "/members/", "Cookie", cookie, "Range", "bytes=5-")
		}
		g.requireClosed(402, "GET", "/members/?pay_offer="+g.server.Keeper.Code(h))
	}
}

func TestGateExpiredCodeAndAccess(t *testing.T) {
	g := newGated(t)
	h := g.pays()
	late, cookie := g.server.Keeper.Code(h), g.enters(h)
	g.now = g.now.Add(61 * time.Second)
	g.requireClosed(402, "GET", "/members/?pay_offer="+late)
	used, fresh := read(t, g.ask("GET", "/members/?pay_offer="+late, "Accept", browser)), read(t, g.ask("GET", "/members/", "Accept", browser))
	filled := regexp.MustCompile(`<a class="button" href="([^:"]*)`)
	require.Contains(t, used, "<h1>This link was used or has expired</h1>")
	require.Equal(t, "mailto", filled.FindStringSubmatch(used)[1], "a payer is not led to a second payment")
	require.Len(t, filled.FindAllString(used, -1), 1)
	require.Equal(t, "https", filled.FindStringSubmatch(fresh)[1])
	g.server.Offer.Contact = ""
	used = read(t, g.ask("GET", "/members/?pay_offer="+late, "Accept", browser))
	require.Equal(t, []string{`<a class="button" href="` + g.server.Offer.Home + `">`}, regexp.MustCompile(`<a class="button" [^>]*>`).FindAllString(used, -1),
		"without a contact it leads to the seller")
	g.requireClosed(402, "POST", "/members/?pay_offer="+g.server.Keeper.Code(h))
	require.Equal(t, 200, g.ask("GET", "/members/", "Cookie", cookie).StatusCode)
	g.now = at.Add(time.Hour)
	g.requireClosed(402, "GET", "/members/", "Cookie", cookie)
}

// A stranger sees no difference; a payer whom this server does not know yet is asked to come back; one that it knows passes
// for ten minutes.
func TestGateLeaksNothingWithoutLedger(t *testing.T) {
	g := newGated(t)
	h := g.pays()
	known := g.enters(h)
	require.Equal(t, 200, g.ask("GET", "/members/", "Cookie", known).StatusCode)
	code := g.server.Keeper.Code(h)
	g.ledger.away = true
	g.requireClosed(402, "GET", "/members/")
	g.requireClosed(402, "GET", "/members/", "Cookie", known+"x")
	res := g.ask("GET", "/members/?pay_offer="+code)
	require.Equal(t, 503, res.StatusCode)
	require.Equal(t, "10", res.Header.Get("Retry-After"))
	g.now = g.now.Add(9 * time.Minute)
	require.Equal(t, 200, g.ask("GET", "/members/", "Cookie", known).StatusCode)
	g.now = g.now.Add(2 * time.Minute)
	g.requireClosed(503, "GET", "/members/", "Cookie", known)
	g.ledger.away = false
	require.Equal(t, 200, g.ask("GET", "/members/", "Cookie", known).StatusCode)
}

func TestGateRefusesUnpayableRequests(t *testing.T) {
	g := newGated(t)
	for _, method := range []string{"HEAD", "CONNECT"} {
		g.requireClosed(402, method, "/members/", headerSignature, "e30=")
	}
	g.requireClosed(402, "GET", "/members/", headerSignature, "e30=", "Upgrade", "websocket")
	g.requireClosed(400, "GET", "/members/", headerSignature, "e30=", headerSignature, "e30=")
	g.requireClosed(400, "GET", "/members/", headerSignature, "e30=", headerSignatureV1, "e30=")
	g.requireClosed(402, "GET", "/members/", "Authorization", "Payment e30, Bearer abc")
	require.Empty(t, g.world.attempts)
	g.world.outcome = x402.Outcome{Status: x402.Refused, Reason: "insufficient_funds"}
	g.requireClosed(402, "GET", "/members/", headerSignature, "e30=")
	require.Len(t, g.world.attempts, 1)
	require.Empty(t, g.visits, "no site runs for an unpaid request")
}

// Somebody without proof that the payment is theirs gets no content, even if it was charged.
func TestGateOpensOnlyForPayer(t *testing.T) {
	g := newGated(t)
	g.world.outcome = x402.Outcome{Status: x402.Settled, Account: g.card.ID, Payer: payer, Intent: nonce, Response: &x402.SettleResponse{Success: true}}
	g.requireClosed(409, "GET", "/members/", headerSignature, "e30=")
	require.Empty(t, g.visits)
}

func TestGateQuoteVary(t *testing.T) {
	g := newGated(t)
	for _, accept := range []string{"*/*", browser} {
		res := g.ask("GET", "/members/", "Accept", accept)
		require.Equal(t, 402, res.StatusCode)
		require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
		require.Len(t, res.Header["Vary"], 1)
		require.Contains(t, res.Header.Get("Vary"), gate.Vary)
	}
	cookie := g.enters(g.pays())
	res := g.ask("GET", "/members/", "Cookie", cookie)
	require.Equal(t, gate.Vary, res.Header.Get("Vary"))
	require.Equal(t, "private", res.Header.Get("Cache-Control"))
}

// The name of the parameter can be encoded, and its word can be a value.
func TestGateCodeInEverySpelling(t *testing.T) {
	g := newGated(t)
	h := g.pays()
	for _, query := range []string{"pay_offer=%s", "x=pay_offer&pay%%5Foffer=%s", "pay%%5foffer=%s&x=pay_offer", "%%70ay_offer=%s&x=1&y"} {
		address := "/members/?" + fmt.Sprintf(query, g.server.Keeper.Code(h))
		res := g.ask("GET", address)
		require.Equal(t, http.StatusSeeOther, res.StatusCode, query)
		to := res.Header.Get("Location")
		require.NotContains(t, to, g.server.Keeper.Code(h)[:20])
		next := g.ask("GET", to, "Cookie", res.Cookies()[0].Name+"="+res.Cookies()[0].Value)
		require.Equal(t, 200, next.StatusCode, "it is led somewhere once")
	}
	res := g.ask("GET", "/members/?a=%zz&b", "Cookie", g.enters(h))
	require.Equal(t, 200, res.StatusCode)
	require.Contains(t, g.visits[len(g.visits)-1], "/members/?a=%zz&b\n", "other queries are not touched")
}

func TestGateUsedCodeAllowsPayment(t *testing.T) {
	g := newGated(t)
	used := g.server.Keeper.Code(g.pays())
	require.Equal(t, http.StatusSeeOther, g.ask("GET", "/members/?pay_offer="+used).StatusCode)
	res := g.ask("GET", "/members/?pay_offer="+used)
	require.Equal(t, 402, res.StatusCode)
	require.Contains(t, read(t, res), "this entry link was used")
	for _, l := range text.Languages {
		page := html.UnescapeString(read(t, g.ask("GET", "/members/?pay_offer="+used+"&lang="+l.Tag, "Accept", browser)))
		require.Contains(t, page, "<h1>"+l.Text("gate.expired")+"</h1>")
		require.Contains(t, page, l.Text("gate.renew", "open", l.Text("gate.open")))
		require.Regexp(t, `<p class="quiet small">`+regexp.QuoteMeta(l.Text("gate.unpaid"))+`</p>\s<p class="actions"><a class="button plain" href="`, page)
	}
	for name, code := range map[string]string{"used": used, "of another offer": "abc.def", "empty": ""} {
		g.charges()
		res := g.ask("GET", "/members/?pay_offer="+code, headerSignature, "e30=")
		require.Equal(t, 200, res.StatusCode, name)
		require.Equal(t, behindGate, read(t, res))
	}
	require.Contains(t, read(t, g.ask("GET", "/members/?pay_offer=abc")), "payment required", "it is not an entry link")
}

func TestGateHidesCredentialsFromSite(t *testing.T) {
	g := newGated(t)
	h := g.pays()
	cookie := g.enters(h)
	for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
		g.visits = nil
		path := "/members/?x=1"
		if method != "GET" {
			path += "&pay_offer=" + g.server.Keeper.Code(h)
		}
		res := g.ask(method, path, "Cookie", "a=1; "+cookie+"; b=2", headerSignature, "e30=",
			"Authorization", "Bearer abc", "Authorization", "Payment x")
		require.Equal(t, 200, res.StatusCode, method)
		require.Equal(t, []string{method + " https://www.example.org/members/?x=1\nAuthorization: Bearer abc\r\nCookie: a=1; b=2\r\n"}, g.visits)
		if method == "OPTIONS" {
			require.Empty(t, read(t, res), "no gate stops it")
		}
	}
}

// A proxy reads the header block of a response into a buffer of its own, and a cookie has at most 4 KB.
func TestGateLongURLKeepsHeadersShort(t *testing.T) {
	g := newGated(t)
	for path, want := range map[string]string{
		"/members/a?x=" + strings.Repeat("x", maxReturnAddress-13):  "/members/a?x=" + strings.Repeat("x", maxReturnAddress-13),
		"/members/a?x=" + strings.Repeat("x", maxReturnAddress-12):  "/members/",
		"/members/a?x=" + strings.Repeat("x", 100*maxReturnAddress): "/members/",
	} {
		res := g.ask("GET", path)
		require.Equal(t, http.StatusPaymentRequired, res.StatusCode)
		require.Less(t, len(res.Header.Get("Link")), 1000)
		_, link, _ := strings.Cut(res.Header.Get("Link"), "?back=")
		back, _, _ := strings.Cut(link, ">")
		address := g.server.Keeper.Link("code", back)
		require.Equal(t, "https://www.example.org"+want, strings.NewReplacer("&pay_offer=code", "", "?pay_offer=code", "").Replace(address))
	}
}

// demanded is what a 402 of the payable address demands at run time: by x402 the
// requirements of version 2, by the Payment scheme the requests with their method and
// intent, as "evm charge 42000000 <token>", and whom they pay.
type demanded struct {
	accepts    []any
	challenges []string
	payees     map[string]bool
	fallback   any
}

func demand(t *testing.T, s *Server) (d demanded) {
	t.Helper()
	res := send(t, s, "POST", offer.PathSponsor, "")
	require.Equal(t, 402, res.StatusCode)
	d.payees = make(map[string]bool)
	d.fallback = readJSON(t, res)["fallback"]
	if required := res.Header.Get("PAYMENT-REQUIRED"); required != "" {
		text := must(base64.StdEncoding.DecodeString(required))(t)
		var quote struct{ Accepts []any }
		require.NoError(t, json.Unmarshal(text, &quote))
		d.accepts = quote.Accepts
	}
	field := func(challenge, name string) string {
		return regexp.MustCompile(name + `="([^"]*)"`).FindStringSubmatch(challenge)[1]
	}
	for _, challenge := range res.Header.Values("WWW-Authenticate") {
		require.True(t, strings.HasPrefix(challenge, "Payment "))
		text := must(base64.RawURLEncoding.DecodeString(field(challenge, "request")))(t)
		var request struct{ Amount, Currency, Recipient string }
		require.NoError(t, json.Unmarshal(text, &request))
		d.challenges = append(d.challenges, strings.Join([]string{field(challenge, "method"), field(challenge, "intent"), request.Amount, request.Currency}, " "))
		d.payees[request.Recipient] = true
	}
	return d
}

// published are the offers of payment of every document, as demanded writes them.
func published(t *testing.T, s *Server) (d demanded, listed []any, extensions []any) {
	t.Helper()
	get := func(path string) (doc map[string]any) {
		rec := httptest.NewRecorder()
		if s.Serve(rec, httptest.NewRequest("GET", path, nil)) && rec.Code == 200 {
			require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &doc))
		}
		return doc
	}
	operation := get(offer.PathOpenAPI)["paths"].(map[string]any)[offer.PathSponsor].(map[string]any)["post"].(map[string]any)
	info, _ := operation["x-payment-info"].(map[string]any)
	offers, _ := info["offers"].([]any)
	for _, o := range offers {
		o := o.(map[string]any)
		d.challenges = append(d.challenges, fmt.Sprint(o["method"], " ", o["intent"], " ", o["amount"], " ", o["currency"]))
	}
	protocols, _ := info["protocols"].([]any)
	for _, p := range protocols {
		for name, of := range p.(map[string]any) {
			listed = append(listed, name)
			if name == "mpp" {
				of := of.(map[string]any)
				require.Contains(t, d.challenges[0], fmt.Sprint(of["method"], " ", of["intent"], " "))
				require.Contains(t, d.challenges[0], of["currency"])
			}
		}
	}
	if x402 := get(offer.PathX402JSON); x402 != nil {
		d.accepts = x402["accepts"].([]any)
		for _, item := range x402["items"].([]any) {
			require.Equal(t, d.accepts, item.(map[string]any)["accepts"])
			require.Equal(t, s.Offer.URL(offer.PathSponsor), item.(map[string]any)["resource"].(map[string]any)["url"])
		}
	}
	card := get(offer.PathAgentCard)
	d.fallback = card["fallback"]
	extensions, _ = card["capabilities"].(map[string]any)["extensions"].([]any)
	return d, listed, extensions
}

// Whatever a document says can be paid is demanded at run time, in the same words, and
// nothing is that no document tells of.
func TestPublishedOffersMatchChallenges(t *testing.T) {
	for _, field := range []string{"Authorization", "Payment-Authorization", ""} {
		for _, chains := range [][]string{nil, {"base"}, {"base", "arbitrum-sepolia"}, {"arbitrum-sepolia", "avalanche", "base"}} {
			t.Run(fmt.Sprintf("%q on %d chains", field, len(chains)), func(t *testing.T) {
				terms := terms()
				terms.MPP = field
				s := shop(t, terms, checkout, chains...)
				want := demand(t, s)
				got, listed, extensions := published(t, s)
				require.Equal(t, want.accepts, got.accepts)
				require.Equal(t, want.challenges, got.challenges)
				require.Equal(t, want.fallback, got.fallback)
				require.Len(t, want.accepts, len(chains))
				protocols := []any{"x402", "mpp"}
				if field == "" {
					protocols = protocols[:1]
				} else {
					require.Len(t, want.challenges, len(chains))
				}
				if len(chains) == 0 {
					require.Empty(t, listed)
					require.Empty(t, extensions)
					return
				}
				require.Equal(t, protocols, listed)
				for n, uri := range document.A2APayments {
					require.Equal(t, uri, extensions[n].(map[string]any)["uri"])
				}
				for payee := range want.payees {
					require.Equal(t, payTo, payee)
				}
			})
		}
	}
}
