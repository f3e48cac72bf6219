package web

import (
	"context"
	"errors"
	"net/http"

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
		o.grant = v.Passage.of(g.server).grant
	}
	defer v.Passage.enter(o)()
	return v.Next(&paidWriter{ResponseWriter: w}, r)
}

// charge takes the payment of a request as POST /v1/sponsor does: before the site runs if the gate charges first, and
// otherwise between the status of the site and its first byte. The content follows in the same response.
func (g *Gate) charge(w http.ResponseWriter, r *http.Request, v Visit, t till, payment http.Header) (err error) {
	ctx, whole := x402.TrackGatedResponse(r.Context()), false
	defer func() { x402.EndResponse(ctx, whole) }()
	attempt, credential, refused := t.attempt(payment, g.server.ClientIP(r))
	if refused != nil {
		refused.ServeHTTP(w, r)
		return nil
	}
	attempt.Deferred = !g.ChargeFirst
	verified, outcome := g.server.Payments.Verify(ctx, attempt)
	if verified != nil && attempt.Deferred {
		settle := func() (gate.Grant, []header, *response) {
			return g.admit(ctx, t, verified.Charge(ctx), credential)
		}
		defer verified.Release()
		refused, err = g.hold(w, r, v, gate.Grant{Rail: verified.Rail, Payer: verified.Payer}, settle)
	} else {
		if verified != nil {
			outcome = verified.Charge(ctx)
		}
		var granted gate.Grant
		var paid []header
		if granted, paid, refused = g.admit(ctx, t, outcome, credential); refused != nil {
			refused.ServeHTTP(w, r)
		} else {
			confirm(w.Header(), paid)
			err = g.pass(w, r, v, &opened{gate: g, grant: granted, byHeader: true})
		}
	}
	// A payer without the content is answered again: the charge is not acknowledged.
	delivered := err == nil && (refused == nil || refused.status == http.StatusPaymentRequired)
	if x402.AwaitsResponse(ctx) && delivered {
		err := http.NewResponseController(w).Flush()
		whole = err == nil || errors.Is(err, http.ErrNotSupported)
	}
	return err
}

// hold runs the site once and has the payment charged before the first byte of its response. refused is the response that
// was sent instead of the site's.
func (g *Gate) hold(w http.ResponseWriter, r *http.Request, v Visit, payer gate.Grant, settle func() (gate.Grant, []header, *response)) (refused *response, err error) {
	inner, cancel := context.WithCancel(r.Context())
	defer cancel()
	if r.Method == http.MethodGet {
		for _, name := range conditional {
			delete(r.Header, name)
		}
	}
	d := &debit{header: w.Header().Clone(), outer: w, request: r, path: pathOf(v.URI), cancel: cancel}
	held := &paidWriter{ResponseWriter: w, debit: d}
	d.charge = func() ([]header, *response) {
		granted, paid, refused := settle()
		if refused == nil {
			v.Passage.charged(held, granted)
		}
		return paid, refused
	}
	defer v.Passage.enter(&opened{gate: g, grant: payer, byHeader: true, held: held})()
	defer func() {
		if !d.ended {
			return
		}
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			panic(p)
		}
		refused, err = d.refused, nil
	}()
	switch err = v.Next(held, r.WithContext(inner)); {
	case err != nil || held.started || d.ended:
		return nil, err
	case held.debit != nil: // the site has nothing at this address
		return nil, Status(http.StatusNotFound)
	default: // a gate behind this one has charged first
		held.WriteHeader(http.StatusOK)
		return nil, nil
	}
}

// admit returns what a settled payment opens, with the headers that confirm it and the cookie for the next requests, or
// the response to another outcome.
func (g *Gate) admit(ctx context.Context, t till, o x402.Outcome, credential *mpp.Credential) (granted gate.Grant, paid []header, refused *response) {
	confirmation, refused := t.answer(o, credential)
	if refused != nil {
		return granted, nil, refused
	}
	if !o.ByPayer {
		return granted, nil, t.failed(problemUsed, o, "It opened this address when it was charged. "+
			"Anyone can read a charged payment on the chain. It opens nothing again without the token or ID of its quote, which x402 version 1 does not have: use the cookie of that response.")
	}
	holder := gate.Holder{Account: o.Account, Name: ledger.AuthorizationName(o.Payer, o.Intent)}
	granted, err := g.server.Keeper.Charged(ctx, holder, g.Access)
	switch {
	case errors.Is(err, gate.ErrUnreadable):
		o.RetryAfter = retryGate
		return granted, nil, t.failed(problemOpen, o, "The payment was charged, but the ledger cannot be read now. Send the same payment again after the time in Retry-After.")
	case err != nil:
		return granted, nil, t.challenge(t.paymentRequired(t.refusal("the access of this payment has ended, or it was refunded; sign a new payment")))
	}
	paid = []header{confirmation}
	if value, err := g.server.Keeper.Admit(ctx, holder); err == nil {
		cookie := gate.Cookie(g.cookie, value, g.Origin(), g.server.Keeper.Lifetime(granted))
		paid = append(paid, header{"Set-Cookie", cookie.String()})
	}
	return granted, paid, nil
}
