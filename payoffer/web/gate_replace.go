package web

import (
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
)

// enterOrAsk is enter, unless the cookie is valid for another payment: then it asks the payer
// whether to replace it.
func (g *Gate) enterOrAsk(w http.ResponseWriter, r *http.Request, v Visit, c credentials, already error) error {
	code, question, err := g.server.Keeper.Replace(r.Context(), c.cookie, c.code)
	switch {
	case err != nil:
		return g.unreadable(w, r)
	case question == "":
		return g.enter(w, r, v, code, already)
	}
	content := struct{ Keep, Replace string }{v.URI, gate.Entry(v.URI, question)}
	p := page.Replace.Render(g.server.frame(r, ""), g.server.Offer.Name, content)
	g.till.page(http.StatusConflict, cacheNever, p).ServeHTTP(w, r)
	return nil
}
