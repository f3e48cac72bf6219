package web

import (
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
)

// askToReplace asks whether a link may replace the payment of the browser. The question is the code of
// the link by which the payer agrees.
func (g *Gate) askToReplace(w http.ResponseWriter, r *http.Request, v Visit, question string) {
	content := struct{ Keep, Replace string }{v.URI, gate.EntryLink(v.URI, question)}
	f := g.server.frame(r, "")
	p := page.Replace.Render(f, f.Offer.Name, content)
	g.till.page(http.StatusConflict, cacheNever, p).ServeHTTP(w, r)
}
