package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// through sends a request through gates, the first one outside, to the site of g. granted is what the placeholders
// say where the site runs.
func (g *gated) through(gates []*Gate, path string, headers ...string) (res *http.Response, granted gate.Grant, expires string) {
	g.t.Helper()
	r := httptest.NewRequest("GET", "https://www.example.org"+path, nil)
	for n := 0; n < len(headers); n += 2 {
		r.Header.Add(headers[n], headers[n+1])
	}
	p := new(Passage)
	next := func(w http.ResponseWriter, r *http.Request) error {
		granted, expires = p.Grant()
		return g.next(w, r)
	}
	for n := len(gates) - 1; n >= 0; n-- {
		inner := next
		next = func(w http.ResponseWriter, r *http.Request) error {
			return gates[n].Serve(w, r, Visit{URI: path, Passage: p, Next: inner})
		}
	}
	w := httptest.NewRecorder()
	require.NoError(g.t, next(w, r))
	require.Empty(g.t, p.open)
	require.Empty(g.t, fmt.Sprint(p), "no log can print it")
	res = w.Result()
	res.Body = io.NopCloser(strings.NewReader(w.Body.String()))
	return res, granted, expires
}

func cookieOf(res *http.Response) string {
	c := res.Cookies()[len(res.Cookies())-1]
	return c.Name + "=" + c.Value
}

// chains are gates of one offer in a chain: the access of each, and whether it charges first.
func (g *gated) chain(first uint, access ...time.Duration) (gates []*Gate) {
	for n, a := range access {
		start := "https://www.example.org/" + strings.Repeat("course/", n)
		gates = append(gates, g.server.Gate(offer.Gate{Start: start, Access: a, ChargeFirst: first>>n&1 == 1}))
	}
	return gates
}

// Whoever pays once enters every door, in each order and with each way of charging.
func TestGateChainOpensWithOnePayment(t *testing.T) {
	for _, access := range [][]time.Duration{
		{time.Hour, 24 * time.Hour}, {24 * time.Hour, time.Hour}, {time.Hour, time.Hour},
		{time.Hour, 24 * time.Hour, 48 * time.Hour}, {48 * time.Hour, time.Hour, 24 * time.Hour},
	} {
		for first := range uint(1) << len(access) {
			t.Run(fmt.Sprint(access, " first ", first), func(t *testing.T) {
				g := newGated(t)
				g.world.offer.Gates = nil
				gates := g.chain(first, access...)
				for _, each := range gates {
					g.world.offer.Gates = append(g.world.offer.Gates, each.Gate)
				}
				settled := g.charges()
				res, granted, expires := g.through(gates, "/course/", headerSignature, "e30=")
				require.Equal(t, 200, res.StatusCode)
				require.Equal(t, behindGate, read(t, res))
				require.Equal(t, 1, settled.charges, "one payment")
				require.Len(t, g.world.attempts, 1)
				require.Len(t, res.Cookies(), 1)
				require.Equal(t, payer, granted.Payer)
				require.Equal(t, first != 0, granted.Payment != "", "before the charge it has no id")
				require.Equal(t, first != 0, expires != "")

				cookie := cookieOf(res)
				res, granted, expires = g.through(gates, "/course/", "Cookie", cookie)
				require.Equal(t, 200, res.StatusCode)
				require.NotEmpty(t, granted.Payment)
				require.Equal(t, at.Add(access[len(access)-1]).UTC().Format(time.RFC3339), expires, "of the innermost gate")

				shortest := access[0]
				for _, a := range access {
					shortest = min(shortest, a)
				}
				g.now = at.Add(shortest)
				res, _, _ = g.through(gates, "/course/", "Cookie", cookie)
				require.Equal(t, 402, res.StatusCode, "each gate has its own access")

				res, _, _ = g.through(gates, "/course/", "Cookie", cookie, headerSignature, "e30=")
				require.Equal(t, 200, res.StatusCode)
				require.Equal(t, 2, settled.charges)
				res, _, _ = g.through(gates, "/course/", "Cookie", cookieOf(res))
				require.Equal(t, 200, res.StatusCode, "the new payment opens all")
			})
		}
	}
}

func TestGateChainOpensWithEntryLink(t *testing.T) {
	g := newGated(t)
	gates := g.chain(0, time.Hour, 24*time.Hour, time.Hour)
	res, _, _ := g.through(gates, "/course/?pay_offer="+g.server.Keeper.Code(g.pays()))
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	res, _, _ = g.through(gates, "/course/", "Cookie", cookieOf(res))
	require.Equal(t, 200, res.StatusCode)
}

// The request of a chain of two offers pays none of them by its header; by cookies and links it enters both.
func TestGateChainOfTwoOffers(t *testing.T) {
	for _, free := range []bool{false, true} { // whether the outer one is open by a cookie
		t.Run(fmt.Sprint("outer one open: ", free), func(t *testing.T) {
			a, b := newGatedOffer(t, "offer-a"), newGatedOffer(t, "offer-b")
			gates := []*Gate{a.Gate, b.Gate}
			forA, forB := a.charges(), b.charges()
			var cookies string
			if free {
				res, _, _ := a.through(gates, "/members/?pay_offer="+a.server.Keeper.Code(a.pays()))
				require.Equal(t, http.StatusSeeOther, res.StatusCode)
				cookies = cookieOf(res)
			}
			res, _, _ := a.through(gates, "/members/", headerSignature, "e30=", "Cookie", cookies)
			require.Zero(t, forA.charges)
			if !free {
				require.Equal(t, 402, res.StatusCode)
				require.Zero(t, forB.charges)
				require.Empty(t, b.world.attempts, "the payment is that of the outer gate")
				require.Empty(t, res.Cookies())
				require.NotContains(t, read(t, res), behindGate)
				return
			}
			require.Equal(t, 200, res.StatusCode)
			require.Equal(t, 1, forB.charges)

			res, _, _ = a.through(gates, "/members/?pay_offer="+b.server.Keeper.Code(b.pays()), "Cookie", cookies)
			require.Equal(t, http.StatusSeeOther, res.StatusCode, "the outer gate leaves the code of the inner one")
			res, _, _ = a.through(gates, "/members/", "Cookie", cookies+"; "+cookieOf(res))
			require.Equal(t, 200, res.StatusCode)
			require.Equal(t, 1, forB.charges)
		})
	}
}

// A payment that opened the outer gate, by its charge or its header, is not offered to the gate of another offer.
func TestGateChainChargesOnlyOneOffer(t *testing.T) {
	a, b := newGatedOffer(t, "offer-a"), newGatedOffer(t, "offer-b")
	a.ChargeFirst = true
	forA := a.charges()
	b.charges()
	res, _, _ := a.through([]*Gate{a.Gate, b.Gate}, "/members/", headerSignature, "e30=")
	require.Equal(t, 402, res.StatusCode)
	require.Equal(t, 1, forA.charges)
	require.Empty(t, b.world.attempts)
}

// The first gate has taken the cookie from the request, and a gate in an error route gets it all the same.
func TestGateInErrorRouteReadsCookie(t *testing.T) {
	g := newGated(t)
	r := httptest.NewRequest("GET", "https://www.example.org/members/missing", nil)
	r.Header.Set("Cookie", g.enters(g.pays()))
	p, failed := new(Passage), errors.New("404")
	err := g.Serve(httptest.NewRecorder(), r, Visit{URI: "/members/missing", Passage: p, Next: func(http.ResponseWriter, *http.Request) error { return failed }})
	require.ErrorIs(t, err, failed)
	w := httptest.NewRecorder()
	require.NoError(t, g.Serve(w, r, Visit{URI: "/members/missing", Passage: p, Next: g.next}))
	require.Equal(t, 200, w.Code)
	require.NotContains(t, g.visits[0], "Cookie")
}
