package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// settlement counts the charges of a gated offer.
type settlement struct{ charges int }

// charges lets payments of the request be verified and charged. The ledger has each charge when it is answered.
func (g *gated) charges() *settlement {
	g.t.Helper()
	rail := g.world.offer.USDC()[0]
	account := ledger.Account{Offer: g.world.offer.ID, ID: rail.Account(), Rail: rail.Name()}
	require.NoError(g.t, g.ledger.Register(g.t.Context(), account))
	var s settlement
	g.world.charge = func(ctx context.Context) x402.Outcome {
		s.charges++
		n := fmt.Sprintf("0x%064x", s.charges)
		must(g.ledger.Record(ctx, nil, ledger.Observation{
			Offer: account.Offer, Account: account.ID, Rail: account.Rail, ExternalID: n, Via: "x402", Asset: "USDC", Amount: 42_000_000,
			USDCents: cents(42_00), ValueBasis: ledger.BasisFace, State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelChain, OccurredAt: g.now.Unix(),
			Cause: "chain", Payer: payer, Nonce: n, Transaction: n,
		}))(g.t)
		return x402.Outcome{
			Status: x402.Settled, Account: account.ID, Payer: payer, Intent: n, ByPayer: true, Version: 2, Response: &x402.SettleResponse{Success: true, Transaction: n},
		}
	}
	return &s
}

// secretHeader is one that only paid responses have.
const secretHeader = "X-Secret"

func (g *gated) requireNoContent(res *http.Response, body string) {
	g.t.Helper()
	require.NotContains(g.t, body, behindGate)
	require.Empty(g.t, res.Header.Get(secretHeader))
	require.Empty(g.t, res.Header.Get("Set-Cookie"))
	require.Empty(g.t, res.Header.Get(headerResponse))
}

var headerResponse = http.CanonicalHeaderKey(x402.HeaderResponse)

// answer is a site that answers with a status.
func answer(status int, headers ...string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set(secretHeader, "a link to the content")
		for n := 0; n < len(headers); n += 2 {
			w.Header().Set(headers[n], headers[n+1])
		}
		w.WriteHeader(status)
		if status != http.StatusNoContent && status != http.StatusNotModified {
			_, err := io.WriteString(w, behindGate)
			return err
		}
		return nil
	}
}

// early is a recorder that knows of 1xx responses.
type early struct {
	*httptest.ResponseRecorder
	informed bool
}

func (e *early) WriteHeader(status int) {
	if e.informed = e.informed || status < http.StatusOK; status >= http.StatusOK {
		e.ResponseRecorder.WriteHeader(status)
	}
}

// What the site does with a request that pays: what is charged, and what is answered. The row of a method or of a gate
// that charges first says only what differs.
func TestGateChargeFollowsSiteResponse(t *testing.T) {
	errGone := errors.New("dial tcp: connection refused")
	for name, c := range map[string]struct {
		site    func(http.ResponseWriter, *http.Request) error
		status  int  // of the response
		charged bool // by a gate that does not charge first
		// post is what differs for POST, and err whether the site's error is passed on.
		post struct{ charged bool }
		err  error
	}{
		"200": {site: answer(200), status: 200, charged: true},
		"an unnamed 200": {site: func(w http.ResponseWriter, _ *http.Request) error {
			_, err := io.WriteString(w, behindGate)
			return err
		}, status: 200, charged: true},
		"204":                               {site: answer(204), status: 204, charged: true},
		"206":                               {site: answer(206), status: 206, charged: true},
		"303 to another page":               {site: answer(303, "Location", "/members/b"), status: 303, charged: true},
		"302 to a presigned address":        {site: answer(302, "Location", "https://bucket.example/members/a?X-Signature=1"), status: 302, charged: true},
		"300 without a Location":            {site: answer(300), status: 300, charged: true},
		"301 to the same path with a slash": {site: answer(301, "Location", "/members/a/"), status: 301, post: struct{ charged bool }{true}},
		"308 without a slash":               {site: answer(308, "Location", "a"), status: 308, post: struct{ charged bool }{true}},
		"302 to itself by https":            {site: answer(302, "Location", "https://www.example.org/members/a"), status: 302, post: struct{ charged bool }{true}},
		"302 to itself, signed":             {site: answer(302, "Location", "/members/a?X-Signature=1"), status: 302, charged: true},
		"302 to another port":               {site: answer(302, "Location", "https://www.example.org:8443/members/a"), status: 302, charged: true},
		"404":                               {site: answer(404), status: 404},
		"405":                               {site: answer(405), status: 405},
		"402 of its own":                    {site: answer(402), status: 402},
		"500":                               {site: answer(500), status: 500},
		"502":                               {site: answer(502), status: 502},
		"an error":                          {site: func(http.ResponseWriter, *http.Request) error { return errGone }, err: errGone},
		"nothing":                           {site: func(http.ResponseWriter, *http.Request) error { return nil }, err: Status(404)},
		"headers and an error": {site: func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set(secretHeader, "a link")
			return errGone
		}, err: errGone},
		"only 103": {site: func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set(secretHeader, "a link")
			w.WriteHeader(103)
			return errGone
		}, err: errGone},
		"103 and 200": {site: func(w http.ResponseWriter, r *http.Request) error {
			w.WriteHeader(103)
			return answer(200)(w, r)
		}, status: 200, charged: true},
		"a hijack": {site: func(w http.ResponseWriter, _ *http.Request) error {
			_, _, err := http.NewResponseController(w).Hijack()
			return err
		}, err: errRefused},
		"a flush": {site: func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set(secretHeader, "a link")
			return http.NewResponseController(w).Flush()
		}, status: 200, charged: true},
		"a file": {site: func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set(secretHeader, "a link")
			_, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader(behindGate))
			return err
		}, status: 200, charged: true},
	} {
		for _, method := range []string{"GET", "POST"} {
			for _, first := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, charge first %v", name, method, first), func(t *testing.T) {
					g := newGated(t)
					g.ChargeFirst = first
					settled := g.charges()
					g.site = c.site
					w, r := &early{ResponseRecorder: httptest.NewRecorder()}, httptest.NewRequest(method, "https://www.example.org/members/a", nil)
					r.Header.Set(headerSignature, "e30=")
					var before int
					g.site = func(w http.ResponseWriter, r *http.Request) error {
						before = settled.charges
						return c.site(w, r)
					}
					err := g.Serve(w, r, Visit{URI: "/members/a", Passage: new(Passage), Next: g.next})
					charged := c.charged || first || method == "POST" && c.post.charged
					require.Len(t, g.visits, 1, "the site runs once")
					require.Equal(t, first && strings.Contains(name, "103"), w.informed, "1xx responses have links")
					require.Equal(t, !first, g.world.attempts[0].Deferred)
					require.Equal(t, map[bool]int{true: 1}[charged], settled.charges)
					require.Equal(t, map[bool]int{true: 1}[first], before, "charges before the site ran")
					if !first {
						require.Positive(t, g.world.released)
					}
					res := w.Result()
					switch {
					case first && c.err != nil && (name == "nothing" || name == "a hijack"): // as the site's own
					case c.err != nil:
						require.ErrorIs(t, err, c.err)
					default:
						require.NoError(t, err)
						require.Equal(t, c.status, res.StatusCode)
						require.Contains(t, res.Header.Get("Cache-Control"), "private")
						require.Contains(t, res.Header.Get("Vary"), gate.Vary)
					}
					if charged {
						require.Len(t, res.Header[headerResponse], 1)
						require.Contains(t, res.Header.Get("Set-Cookie"), "pay_offer_")
						if c.err == nil && name != "an unnamed 200" {
							require.NotEmpty(t, res.Header.Get(secretHeader))
						}
						return
					}
					require.Empty(t, res.Header.Get(headerResponse))
					require.Empty(t, res.Header.Get("Set-Cookie"))
					if c.err != nil {
						require.Empty(t, res.Header, "no header of the site comes out")
					}
				})
			}
		}
	}
}

// What the charge becomes if the site answers 200: nothing of it comes out unless it is charged for.
func TestGateRefusedChargeWithholdsContent(t *testing.T) {
	for name, c := range map[string]struct {
		outcome x402.Outcome
		status  int
	}{
		"refused":     {x402.Outcome{Status: x402.Refused, Reason: "insufficient_funds"}, 402},
		"open":        {x402.Outcome{Status: x402.Open, RetryAfter: time.Minute}, 503},
		"unavailable": {x402.Outcome{Status: x402.Unavailable, Reason: "application_slow", RetryAfter: time.Minute}, 503},
		"conflict":    {x402.Outcome{Status: x402.Conflict}, 409},
		"of somebody": {x402.Outcome{Status: x402.Settled, Account: "a", Payer: payer, Intent: nonce, Response: new(x402.SettleResponse)}, 409},
	} {
		for what, site := range map[string]func(w http.ResponseWriter, r *http.Request) error{
			"a status": answer(200),
			"a file": func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set(secretHeader, "a link")
				_, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader(behindGate))
				return err
			},
			"a flush": func(w http.ResponseWriter, r *http.Request) error {
				w.Header().Set(secretHeader, "a link")
				_ = http.NewResponseController(w).Flush()
				return answer(200)(w, r)
			},
			"an abort": func(w http.ResponseWriter, r *http.Request) error {
				if err := answer(200)(w, r); err != nil {
					panic(http.ErrAbortHandler)
				}
				return nil
			},
			"a hijack": func(w http.ResponseWriter, r *http.Request) error {
				_ = answer(200)(w, r)
				_, _, err := http.NewResponseController(w).Hijack()
				return err
			},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				g, charges := newGated(t), 0
				g.world.charge = func(context.Context) x402.Outcome { charges++; return c.outcome }
				var after error
				g.site = func(w http.ResponseWriter, r *http.Request) error {
					defer func() { after = r.Context().Err() }()
					return site(w, r)
				}
				res := g.ask("GET", "/members/a", headerSignature, "e30=")
				require.Equal(t, c.status, res.StatusCode)
				require.Empty(t, res.Header.Get(secretHeader))
				require.Empty(t, res.Header.Get("Set-Cookie"))
				require.NotContains(t, read(t, res), behindGate)
				require.ErrorIs(t, after, context.Canceled, "the site is told to stop")
				require.Equal(t, 1, charges)
				require.Equal(t, 1, g.world.released)
			})
		}
	}
}

func TestGatePanicIsPassedOn(t *testing.T) {
	refused := x402.Outcome{Status: x402.Refused}
	for name, c := range map[string]struct {
		outcome x402.Outcome
		site    func(w http.ResponseWriter)
		value   any
	}{
		"before the status":          {x402.Outcome{}, func(http.ResponseWriter) { panic("bug") }, "bug"},
		"an abort before the status": {x402.Outcome{}, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, http.ErrAbortHandler},
		"after a refusal":            {refused, func(w http.ResponseWriter) { w.WriteHeader(200); panic("bug") }, "bug"},
	} {
		t.Run(name, func(t *testing.T) {
			g, charges := newGated(t), 0
			g.world.charge = func(context.Context) x402.Outcome { charges++; return c.outcome }
			g.site = func(w http.ResponseWriter, _ *http.Request) error { c.site(w); return nil }
			require.PanicsWithValue(t, c.value, func() { g.ask("GET", "/members/a", headerSignature, "e30=") })
			require.Equal(t, 1, g.world.released)
			require.Equal(t, map[bool]int{true: 1}[c.outcome == refused], charges)
		})
	}
}

func (g *gated) serveTo(ctx context.Context, w http.ResponseWriter) error {
	r := httptest.NewRequestWithContext(ctx, "GET", "https://www.example.org/members/a", nil)
	r.Header.Set(headerSignature, "e30=")
	return g.Serve(w, r, Visit{URI: "/members/a", Passage: new(Passage), Next: g.next})
}

func TestGateCanceledClientIsNotCharged(t *testing.T) {
	g := newGated(t)
	settled := g.charges()
	ctx, leave := context.WithCancel(t.Context())
	g.site = func(w http.ResponseWriter, r *http.Request) error {
		leave()
		return answer(200)(w, r)
	}
	w := httptest.NewRecorder()
	require.NoError(t, g.serveTo(ctx, w))
	require.Zero(t, settled.charges)
	g.requireNoContent(w.Result(), w.Body.String())
	require.Equal(t, 1, g.world.released)
}

// A GET that pays gets all of the content; other preconditions stay.
func TestGatePaidGETIgnoresRange(t *testing.T) {
	headers := []string{
		headerSignature, "e30=", "Range", "bytes=5-", "If-Range", `"a"`, "If-None-Match", `"a"`, "If-Modified-Since", "Mon, 02 Jan 2006 15:04:05 GMT", "If-Match", `"b"`,
	}
	for method, reached := range map[string][]string{"GET": {"If-Match"}, "PUT": {"If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "Range"}} {
		g := newGated(t)
		g.charges()
		require.Equal(t, 200, g.ask(method, "/members/a", headers...).StatusCode)
		require.Len(t, g.visits, 1)
		for _, name := range []string{"Range", "If-Range", "If-None-Match", "If-Modified-Since", "If-Match"} {
			require.Equal(t, strings.Contains(" "+strings.Join(reached, " ")+" ", " "+name+" "), strings.Contains(g.visits[0], "\n"+name+":") || strings.Contains(g.visits[0], "\r\n"+name+":"), method+" "+name)
		}
	}
	g := newGated(t)
	cookie := g.enters(g.pays())
	g.ask("GET", "/members/a", "Cookie", cookie, "Range", "bytes=5-")
	require.Contains(t, g.visits[0], "Range: bytes=5-", "a pass asks for what it wants")
}

func TestGateUnreadableChargeIs503(t *testing.T) {
	for _, first := range []bool{false, true} {
		g := newGated(t)
		g.ChargeFirst = first
		settled := g.charges()
		charge := g.world.charge
		g.world.charge = func(ctx context.Context) x402.Outcome {
			defer func() { g.ledger.away = true }()
			return charge(ctx)
		}
		res := g.ask("GET", "/members/a", headerSignature, "e30=")
		require.Equal(t, 503, res.StatusCode)
		require.Equal(t, "10", res.Header.Get("Retry-After"))
		body := read(t, res)
		require.Contains(t, body, "The payment was charged")
		g.requireNoContent(res, body)
		require.Equal(t, 1, settled.charges)
	}
}

// While the ledger cannot say whether a payment opens the gate, its payer is not led to a receipt, as if it opened nothing: a
// program would pay again.
func TestUnreadableEntryIs503(t *testing.T) {
	g := newGated(t)
	holder := g.pays()
	path := "/v1/receipt/" + receiptID(qrKey, ledger.Receipt{Offer: g.world.offer.ID, Account: holder.Account, ExternalID: "pi_1"}) + "/enter"
	g.ledger.away = true
	for left, where := range []string{"the payment", "what it opens"} {
		g.ledger.left = left
		res := send(t, g.server, "GET", path, "")
		require.Equal(t, 503, res.StatusCode, where)
		require.NotEmpty(t, res.Header.Get("Retry-After"))
		require.Empty(t, res.Header.Get("Location"))
	}
	g.ledger.away = false
	require.Contains(t, send(t, g.server, "GET", path, "").Header.Get("Location"), "https://www.example.org/members/")
}

// A charge is acknowledged once its payer has the whole response.
func TestGateAcknowledgesOnlyWholeResponse(t *testing.T) {
	for name, c := range map[string]struct {
		site  func(w http.ResponseWriter, r *http.Request) error
		whole bool
	}{
		"whole":                  {answer(200), true},
		"an error after a start": {func(w http.ResponseWriter, r *http.Request) error { _ = answer(200)(w, r); return errors.New("cut") }, false},
	} {
		for _, first := range []bool{false, true} {
			g := newGated(t)
			g.ChargeFirst = first
			g.charges()
			charge, whole := g.world.charge, []bool(nil)
			g.world.charge = func(ctx context.Context) x402.Outcome {
				g.world.attempts[len(g.world.attempts)-1].Response.OnEnd(ctx, func(complete bool) { whole = append(whole, complete) })
				return charge(ctx)
			}
			g.site = c.site
			_ = g.serveTo(t.Context(), httptest.NewRecorder())
			require.Equal(t, []bool{c.whole}, whole, name)
		}
	}
}

// An answer that is not paid for says nothing of the content, and its payer can pay for another request while it is read.
func TestGateUnpaidErrorHidesContentHeaders(t *testing.T) {
	g := newGated(t)
	g.charges()
	var released int
	g.site = func(w http.ResponseWriter, _ *http.Request) error {
		for _, name := range []string{"Etag", "Last-Modified", "Content-Range"} {
			w.Header().Set(name, "of the content")
		}
		w.WriteHeader(http.StatusPreconditionFailed)
		released = g.world.released
		return nil
	}
	w := httptest.NewRecorder()
	require.NoError(t, g.serveTo(t.Context(), w))
	require.Equal(t, http.StatusPreconditionFailed, w.Code)
	for _, name := range []string{"Etag", "Last-Modified", "Content-Range"} {
		require.Empty(t, w.Header().Get(name))
	}
	require.Positive(t, released)
}

// A payer that is not told of the charge, or gets no content for it, is answered by it again.
func TestGateRefusalDoesNotAcknowledge(t *testing.T) {
	settled := x402.Outcome{Status: x402.Settled, Account: "a", Payer: payer, Intent: nonce, Response: new(x402.SettleResponse)}
	paid := settled
	paid.ByPayer = true
	for name, c := range map[string]struct {
		outcome      x402.Outcome
		away         bool
		status       int
		acknowledged bool
	}{
		"of a stranger":                {settled, false, 409, false},
		"the ledger cannot be read":    {paid, true, 503, false},
		"its access has ended":         {paid, false, 402, true},
		"it is refused for another":    {x402.Outcome{Status: x402.Conflict}, false, 409, false},
		"it is refused for good":       {x402.Outcome{Status: x402.Refused}, false, 402, true},
		"its outcome is not known yet": {x402.Outcome{Status: x402.Open}, false, 503, false},
	} {
		for _, first := range []bool{false, true} {
			g := newGated(t)
			g.ChargeFirst, g.ledger.away = first, c.away
			var whole []bool
			g.world.charge = func(ctx context.Context) x402.Outcome {
				g.world.attempts[len(g.world.attempts)-1].Response.OnEnd(ctx, func(complete bool) { whole = append(whole, complete) })
				return c.outcome
			}
			w := httptest.NewRecorder()
			require.NoError(t, g.serveTo(t.Context(), w))
			require.Equal(t, c.status, w.Code, name)
			require.Equal(t, []bool{c.acknowledged}, whole, name)
		}
	}
}

// hijackable is a writer whose connection can be taken over.
type hijackable struct{ *httptest.ResponseRecorder }

func (hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

func TestGatePassAllowsConnectionUpgrade(t *testing.T) {
	g := newGated(t)
	cookie := g.enters(g.pays())
	r := httptest.NewRequest("GET", "https://www.example.org/members/a", nil)
	r.Header.Set("Cookie", cookie)
	g.site = func(w http.ResponseWriter, _ *http.Request) error {
		_, _, err := http.NewResponseController(w).Hijack()
		return err
	}
	require.NoError(t, g.Serve(hijackable{httptest.NewRecorder()}, r, Visit{URI: "/members/a", Passage: new(Passage), Next: g.next}))
}

func TestGateQuoteStatesChargeTime(t *testing.T) {
	for _, first := range []bool{false, true} {
		g := newGated(t)
		g.Gate = g.server.Gate(offer.Gate{Start: "https://www.example.org/members/", Access: time.Hour, ChargeFirst: first})
		require.Equal(t, !first, readJSON(t, g.ask("GET", "/members/a"))["deferred"])
	}
}

// The handlers behind a gate can remove a header that a handler before it has set.
func TestGatePaidResponseKeepsSiteHeaders(t *testing.T) {
	for _, status := range []int{200, 404} {
		g := newGated(t)
		g.charges()
		g.site = func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Del("X-Outer")
			return answer(status)(w, r)
		}
		w := httptest.NewRecorder()
		w.Header().Set("X-Outer", "1")
		require.NoError(t, g.serveTo(t.Context(), w))
		require.Equal(t, status, w.Code)
		require.Empty(t, w.Header().Get("X-Outer"))
		require.NotEmpty(t, w.Header().Get(secretHeader))
	}
}

// A browser that is signed in is led to the address without the code, too.
func TestGateCodeOfSignedInBrowser(t *testing.T) {
	g := newGated(t)
	h := g.pays()
	cookie, code := g.enters(h), g.server.Keeper.Code(h)
	for range 2 { // a new code and a used one
		res := g.ask("GET", "/members/?x=1&pay_offer="+code, "Cookie", cookie)
		require.Equal(t, http.StatusSeeOther, res.StatusCode)
		require.Equal(t, "/members/?x=1", res.Header.Get("Location"))
	}
	require.Empty(t, g.visits)
}
