package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// conditional are the request headers by which a GET asks for less than the content.
var conditional = []string{"Range", "If-Range", "If-None-Match", "If-Modified-Since"}

// pass passes a request on. A gate that charges first has the payment of a gate around it charged now.
func (g *Gate) pass(w http.ResponseWriter, r *http.Request, v Visit, o *opened) error {
	if g.ChargeFirst && o.unpaid() {
		if !o.held.pay(http.StatusOK) {
			return nil
		}
		o.grant = v.Passage.openGate(g.server).grant
	}
	defer v.Passage.enter(o)()
	return v.Next(&paidWriter{ResponseWriter: w}, r)
}

// charge takes the payment of a request as POST /v1/sponsor does: before the site runs if the gate charges first, and
// otherwise between the status of the site and its first byte. The content follows in the same response.
func (g *Gate) charge(w http.ResponseWriter, r *http.Request, v Visit, t till, payment http.Header) (err error) {
	attempt, credential, refused := t.attempt(payment, g.server.ClientIP(r))
	if refused != nil {
		refused.ServeHTTP(w, r)
		return nil
	}
	if release, held := g.server.Hold(); held {
		defer release() // what the charge opens is read after it is recorded
	}
	attempt.Deferred, attempt.Response = !g.ChargeFirst, &x402.Response{Gated: true}
	attempt.Response.Serve(w, func() (delivered bool) {
		refused, err = g.take(w, r, v, t, attempt, credential)
		// A payer without the content is answered again: the charge is not acknowledged.
		return err == nil && (refused == nil || refused.status == http.StatusPaymentRequired)
	})
	return err
}

// take has an attempt charged, and writes the response. refused is the response that was sent instead of the site's.
func (g *Gate) take(w http.ResponseWriter, r *http.Request, v Visit, t till, attempt x402.Attempt, credential *mpp.Credential) (refused *response, err error) {
	verified, outcome := g.server.Payments.Verify(r.Context(), attempt)
	if verified != nil && attempt.Deferred {
		defer verified.Release()
		payer := gate.Grant{Rail: verified.Rail, Payer: verified.Payer}
		return g.hold(w, r, v, payer, verified.Release, func(h http.Header) (gate.Grant, *response) {
			return g.admit(r.Context(), h, t, verified.Charge(r.Context()), credential)
		})
	}
	if verified != nil {
		outcome = verified.Charge(r.Context())
	}
	granted, refused := g.admit(r.Context(), w.Header(), t, outcome, credential)
	if refused != nil {
		refused.ServeHTTP(w, r)
		return refused, nil
	}
	return nil, g.pass(w, r, v, &opened{gate: g, grant: granted, byHeader: true})
}

// hold runs the site once and has the payment charged, or released, before the first byte of its response. charge adds the
// headers of a paid response. refused is the response that was sent instead of the site's.
func (g *Gate) hold(w http.ResponseWriter, r *http.Request, v Visit, payer gate.Grant, release func(), charge func(http.Header) (gate.Grant, *response)) (refused *response, err error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if r.Method == http.MethodGet {
		for _, name := range conditional {
			delete(r.Header, name)
		}
	}
	held, ended := &paidWriter{ResponseWriter: w, header: w.Header().Clone()}, false
	held.settle = func(status int) bool {
		switch {
		case ended:
			return false
		case !succeeds(r, v.URI, status, held.header.Get("Location")):
			release()
			for _, name := range []string{"Etag", "Last-Modified", "Content-Range"} { // they are of the content
				delete(held.header, name)
			}
			return true
		case r.Context().Err() == nil: // the client is there
			var granted gate.Grant
			if granted, refused = charge(held.header); refused == nil {
				v.Passage.markCharged(held, granted)
				return true
			}
			refused.ServeHTTP(w, r)
		}
		ended = true
		cancel()
		return false
	}
	defer v.Passage.enter(&opened{gate: g, grant: payer, byHeader: true, held: held})()
	defer func() {
		if !ended {
			return
		}
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			panic(p)
		}
		err = nil
	}()
	switch err = v.Next(held, r.WithContext(ctx)); {
	case err != nil || held.started || ended:
	case held.header != nil: // the site has nothing at this address
		err = Status(http.StatusNotFound)
	default: // a gate behind this one has charged first
		held.WriteHeader(http.StatusOK)
	}
	return refused, err
}

// succeeds reports whether a response is worth its price: 2xx and 3xx, but not the redirect of a GET to its own path with
// or without a slash at the end: one with another query can lead to the content. uri is the address before rewrites.
func succeeds(r *http.Request, uri string, status int, location string) bool {
	if status >= http.StatusBadRequest || r.Method != http.MethodGet || status < http.StatusMultipleChoices || location == "" {
		return status < http.StatusBadRequest
	}
	here, err := url.Parse("https://" + r.Host + uri)
	if err != nil {
		return true
	}
	to, err := here.Parse(location)
	return err != nil || to.Host != here.Host || to.RawQuery != here.RawQuery || strings.TrimSuffix(to.Path, "/") != strings.TrimSuffix(here.Path, "/")
}

// admit returns what a settled payment opens, or the response to another outcome. It adds the header that confirms the
// payment, and the cookie for the next requests.
func (g *Gate) admit(ctx context.Context, h http.Header, t till, o x402.Outcome, credential *mpp.Credential) (granted gate.Grant, refused *response) {
	confirmation, refused := t.answer(o, credential)
	if refused != nil {
		return granted, refused
	}
	if !o.ByPayer {
		return granted, t.failed(problemUsed, o, "It opened this address when it was charged. "+
			"Anyone can read a charged payment on the chain. It opens nothing again without the token or ID of its quote, which x402 version 1 does not have: use the cookie of that response.")
	}
	holder := gate.Holder{Account: o.Account, Name: ledger.AuthorizationName(o.Payer, o.Intent)}
	granted, err := g.server.Keeper.ByCharge(ctx, holder, g.Access)
	switch {
	case errors.Is(err, gate.ErrUnreadable):
		o.RetryAfter = retryGate
		return granted, t.failed(problemOpen, o, "The payment was charged, but the ledger cannot be read now. Send the same payment again after the time in Retry-After.")
	case err != nil:
		return granted, t.challenge(t.paymentRequired(t.refusal("the access of this payment has ended, or it was refunded; sign a new payment")))
	}
	if confirmation.name != "" {
		h[confirmation.name] = []string{confirmation.value}
	}
	if value, err := g.server.Keeper.Admit(ctx, holder); err == nil {
		cookie := gate.Cookie(g.cookie, value, g.Origin(), g.server.Keeper.Lifetime(granted))
		h["Set-Cookie"] = append(h["Set-Cookie"], cookie.String())
	}
	return granted, nil
}
