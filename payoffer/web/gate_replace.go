package web

import (
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
)

// ask asks whether a link may replace the payment of the browser. The question is the code of
// the link by which the payer agrees.
func (g *Gate) ask(w http.ResponseWriter, r *http.Request, v Visit, question string) {
	content := struct{ Keep, Replace string }{v.URI, gate.Entry(v.URI, question)}
	p := page.Replace.Render(g.server.frame(r, ""), g.server.Offer.Name, content)
	g.till.page(http.StatusConflict, cacheNever, p).ServeHTTP(w, r)
}
