package payoffer

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/payoffer/caddy-pay-offer/payoffer/web"
)

// passageVar is the variable of a request with its *web.Passage, also for the gates of an error route.
const passageVar = "pay_offer_gate.passage"

// serve answers a gated request.
func (g *Gate) serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	passage, found := caddyhttp.GetVar(r.Context(), passageVar).(*web.Passage)
	if !found {
		passage = new(web.Passage)
		caddyhttp.SetVar(r.Context(), passageVar, passage)
		setPlaceholders(r, passage)
	}
	_, uri := original(r)
	err := g.gate.Serve(w, r, web.Visit{URI: uri, Passage: passage, Next: next.ServeHTTP})
	if status, ok := errors.AsType[web.Status](err); ok {
		return caddyhttp.Error(int(status), nil)
	}
	return err
}

// setPlaceholders says who paid. All placeholders are always set: an unknown one would
// reach the upstream as text.
func setPlaceholders(r *http.Request, passage *web.Passage) {
	r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).Map(func(key string) (any, bool) {
		if !strings.HasPrefix(key, "http.pay_offer.") {
			return nil, false
		}
		granted, expires := passage.Grant()
		switch key {
		case "http.pay_offer.payment":
			return granted.Payment, true
		case "http.pay_offer.rail":
			return granted.Rail, true
		case "http.pay_offer.payer":
			return granted.Payer, true
		case "http.pay_offer.expires":
			return expires, true
		}
		return nil, false
	})
}
