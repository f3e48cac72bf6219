package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Gate serves the requests of one gated route. It is safe for concurrent use.
type Gate struct {
	offer.Gate
	server *Server
	till   till
	cookie string // the name of its cookie
}

// Visit is what the web server knows of a gated request.
type Visit struct {
	// URI is the path and the query before rewrites.
	URI string
	// Passage is the one of this request for all gates.
	Passage *Passage
	// Next is the handlers behind the gate.
	Next func(w http.ResponseWriter, r *http.Request) error
}

// Status is the error of a request that the site answers with its own error page.
type Status int

func (s Status) Error() string { return http.StatusText(int(s)) }

// maxResourcePath is the longest path in a quote, in bytes of a JSON string, in which "&" has 6. The header block
// has little room; the quote of a longer path names the start of the gate.
const maxResourcePath = 162

// maxReturnAddress is the longest address to which a payer comes back, in bytes of its path and query, for the same reason.
const maxReturnAddress = 300

// retryGate is the Retry-After while the ledger cannot be read.
const retryGate = 10 * time.Second

// Gate makes the server of a gated route.
func (s *Server) Gate(g offer.Gate) *Gate {
	served := &Gate{Gate: g, server: s, cookie: s.Keeper.CookieName(g.Origin())}
	re := responder{common: []header{{"X-Content-Type-Options", "nosniff"}, {"Vary", gate.Vary}}} // links of the service host are wrong here
	served.till = till{responder: re, Server: s, challenges: mpp.New(s.Offer, g.Origin(), s.QRKey, s.Now, s.Live)}
	return served
}

// Serve answers a request, or passes it on if its payment opens the gate. The order: a valid
// pass, then a payment, then the quote, for which the site is not asked.
func (g *Gate) Serve(w http.ResponseWriter, r *http.Request, v Visit) error {
	p := v.Passage
	cookie := g.takeCredentials(r, p)
	if r.Method == http.MethodOptions {
		return v.Next(bodiless{w}, r)
	}
	if cookie != "" || p.code != "" || p.payment != nil {
		g.server.WaitStarted(r.Context())
	}
	o, closed := g.granted(r.Context(), cookie, p)
	reason, enters := "payment required", p.code != "" && r.Method == http.MethodGet && g.server.Keeper.IsCode(p.code)
	if closed == nil && !enters {
		return g.pass(w, r, v, o)
	}
	v.URI = withoutCode(v.URI)
	if enters {
		if answered, err := g.enter(w, r, v, cookie, closed); answered {
			return err
		}
		reason = "this entry link was used or has expired; open the receipt to get a new one"
		if g.server.Keeper.IsPassCode(p.code) {
			reason = "the pass of this entry link has ended or was revoked; ask the seller for another one"
		}
	}
	till, payment := g.tillFor(v.URI), p.unusedPayment()
	if payment != nil {
		if granted, err := g.byPayment(r, till, payment); err == nil {
			return g.pass(w, r, v, &opened{gate: g, grant: granted, byHeader: true})
		}
	}
	switch {
	case payment != nil && chargeable(r):
		return g.charge(w, r, v, till, payment)
	case errors.Is(closed, gate.ErrUnreadable):
		return g.unreadable(w, r)
	case payment != nil:
		reason = "a " + r.Method + " request or an upgrade cannot be paid, so the payment was not sent; pay with GET or POST"
	}
	g.require(w, r, v, till, reason, enters)
	return nil
}

// granted opens the gate by a gate of the same offer around this one, else by the cookie.
// Errors: gate.ErrClosed, gate.ErrUnreadable.
func (g *Gate) granted(ctx context.Context, cookie string, p *Passage) (*opened, error) {
	if outer := p.openGate(g.server); outer != nil {
		if outer.unpaid() || g.server.Now().Before(outer.grant.Expires(g.Access)) {
			return &opened{gate: g, grant: outer.grant, held: outer.held}, nil
		}
		return nil, gate.ErrClosed
	}
	grant, err := g.server.Keeper.ByCookie(ctx, cookie, g.Access)
	return &opened{gate: g, grant: grant}, err
}

// bodiless leaves out the content of a response to OPTIONS, which no gate stops and which some
// file servers answer as GET.
type bodiless struct{ http.ResponseWriter }

func (b bodiless) Write(p []byte) (int, error) {
	b.Header().Del("Content-Length")
	return len(p), nil
}

// WriteHeader implements http.ResponseWriter.
func (b bodiless) WriteHeader(status int) {
	b.Header().Del("Content-Length")
	b.ResponseWriter.WriteHeader(status)
}

// byPayment is the grant of a payment that was charged before.
func (g *Gate) byPayment(r *http.Request, t till, payment http.Header) (gate.Grant, error) {
	attempt, _, failed := t.attempt(payment, "")
	if failed != nil {
		return gate.Grant{}, gate.ErrClosed
	}
	id, err := g.server.Payments.Identify(attempt)
	if err != nil {
		return gate.Grant{}, err
	}
	return g.server.Keeper.ByPayment(r.Context(), id, g.Access)
}

// chargeable reports whether a request can be paid: its response has content.
func chargeable(r *http.Request) bool {
	return r.Method != http.MethodHead && r.Method != http.MethodConnect && r.Header.Get("Upgrade") == ""
}

// enter exchanges the code of an entry link for a cookie and leads to the address without
// the code. A browser whose cookie is valid for another payment is asked first. closed is
// nil if the cookie is valid. A code that was used or has expired is not answered.
func (g *Gate) enter(w http.ResponseWriter, r *http.Request, v Visit, cookie string, closed error) (answered bool, err error) {
	code, question, err := g.server.Keeper.Replace(r.Context(), cookie, v.Passage.code)
	switch {
	case err != nil:
		return true, g.unreadable(w, r)
	case question != "":
		g.askToReplace(w, r, v, question)
		return true, nil
	}
	value, grant, err := g.server.Keeper.Enter(r.Context(), code)
	switch {
	case err == nil:
		http.SetCookie(w, gate.Cookie(g.cookie, value, g.Origin(), g.server.Keeper.Lifetime(grant)))
	case closed == nil: // the link was used in this browser
	case errors.Is(err, gate.ErrUnreadable):
		return true, g.unreadable(w, r)
	default:
		return false, nil
	}
	w.Header()["Cache-Control"] = []string{cacheNever}
	w.Header()["Referrer-Policy"] = []string{noReferrer.value}
	w.Header()["Location"] = []string{v.URI}
	w.WriteHeader(http.StatusSeeOther)
	return true, nil
}

// unreadable answers in place, because an error route might serve the file itself.
func (g *Gate) unreadable(w http.ResponseWriter, r *http.Request) error {
	g.till.refuse(problemLedger, "detail", nil, retryAfter(retryGate)).ServeHTTP(w, r)
	return nil
}

// tillFor is the till of an address behind the gate.
func (g *Gate) tillFor(uri string) till {
	t := g.till
	address := g.Start
	if path, _, _ := strings.Cut(uri, "?"); len(offer.JSON(path)) <= maxResourcePath {
		address = g.Origin() + path
	}
	resource := g.server.Offer.ResourceAt(address)
	t.refusal = func(reason string) *x402.Quote { return g.server.Payments.QuoteFor(resource, !g.ChargeFirst, reason) }
	return t
}

// require answers 402: the terms for programs, with a page for people.
func (g *Gate) require(w http.ResponseWriter, r *http.Request, v Visit, till till, reason string, expired bool) {
	wanted := v.URI
	if len(wanted) > maxReturnAddress {
		wanted = strings.TrimPrefix(g.Start, g.Origin())
	}
	pay := g.server.Offer.URL(offer.PathMethods) + "?back=" + url.QueryEscape(g.server.Keeper.Back(g.Gate, wanted))
	link := header{"Link", "<" + pay + `>; rel="payment"; type="text/html"`}
	res := till.paymentRequired(till.refusal(reason), link)
	if prefersPage(r) {
		f := g.server.frame(r, "")
		_, query, _ := strings.Cut(v.URI, "?")
		f.Query, _ = url.ParseQuery(query) // the links to other languages keep it
		f.Query.Del("lang")
		content := struct {
			Pay, Opens, Ended, Renew string // Ended says what is wrong with the link, and Renew how to get another one
		}{Pay: pay, Opens: accessText(f, g.Access)}
		switch {
		case expired && g.server.Keeper.IsPassCode(v.Passage.code):
			content.Ended, content.Renew = f.Language.Text("gate.ended"), f.Language.Text("gate.another")
		case expired:
			content.Ended, content.Renew = f.Language.Text("gate.expired"), f.Language.Text("gate.renew", "open", f.Language.Text("gate.open"))
		}
		p := page.Gate.Render(f, f.Offer.Name, content)
		shown := till.page(http.StatusPaymentRequired, cacheNever, p, link)
		shown.required, res = res.required, shown
	}
	till.challenge(res).ServeHTTP(w, r)
}

// accessText returns the access period in the page's language, such as 30 days.
func accessText(f page.Frame, access time.Duration) string {
	for _, unit := range []struct {
		key  string
		long time.Duration
	}{{"gate.opens.days", 24 * time.Hour}, {"gate.opens.hours", time.Hour}} {
		if access%unit.long == 0 {
			return f.Language.Text(unit.key, "n", int64(access/unit.long))
		}
	}
	return f.Language.Text("gate.opens.minutes", "n", int64(access/time.Minute))
}
