package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
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
	// Status is the status of a HEAD request to the handlers behind the gate.
	Status func() int
	// Next is the handlers behind the gate. The grant is nil for a request that no gate
	// stops.
	Next func(w http.ResponseWriter, r *http.Request, g *gate.Grant) error
}

// Status is the error of a request that the site answers with its own error page.
type Status int

func (s Status) Error() string { return http.StatusText(int(s)) }

// maxResourcePath is the longest path in a quote, in bytes. The header block has little
// room; the quote of a longer path names the start of the gate.
const maxResourcePath = 160

// maxBack is the longest address to which a payer comes back, in bytes of its path and query, for the same reason.
const maxBack = 500

// retryGate is the Retry-After while the ledger cannot be read.
const retryGate = 10 * time.Second

// Gate makes the server of a gated route.
func (s *Server) Gate(g offer.Gate) *Gate {
	served := &Gate{Gate: g, server: s, cookie: s.Keeper.CookieName(g.Origin())}
	re := responder{common: []header{{"X-Content-Type-Options", "nosniff"}}} // links of the service host are wrong here
	served.till = till{responder: re, Server: s, challenges: mpp.New(s.Offer, g.Origin(), s.QRKey, s.Now)}
	return served
}

// Serve answers a request, or passes it on if its payment opens the gate. The order: a
// valid pass, then a payment, then the quote. A GET of something that does not exist is
// never charged.
func (g *Gate) Serve(w http.ResponseWriter, r *http.Request, v Visit) error {
	c := g.takeCredentials(r)
	if r.Method == http.MethodOptions {
		return v.Next(bodiless{w}, r, nil)
	}
	if c.cookie != "" || c.code != "" || c.payment != nil {
		g.server.Started(r.Context())
	}
	grant, err := g.server.Keeper.ByCookie(r.Context(), c.cookie, g.Access)
	if err == nil && c.code == "" {
		return v.Next(w, r, &grant)
	}
	v.URI = withoutCode(v.URI)
	switch {
	case c.code != "" && r.Method == http.MethodGet:
		return g.enterOrAsk(w, r, v, c, err)
	case err == nil:
		return v.Next(w, r, &grant)
	}
	till := g.tillFor(v.URI)
	if c.payment != nil {
		if known, err := g.byPayment(r, till, c.payment); err == nil {
			return v.Next(w, r, &known)
		}
	}
	if r.Method == http.MethodGet {
		if status := v.Status(); status == http.StatusNotFound || status == http.StatusGone {
			return Status(status)
		}
	}
	switch {
	case c.payment != nil && chargeable(r):
		return g.charge(w, r, v, till, c.payment)
	case errors.Is(err, gate.ErrUnreadable):
		return g.unreadable(w, r)
	}
	reason := "payment required"
	if c.payment != nil {
		reason = "a " + r.Method + " request or an upgrade cannot be paid, so the payment was not sent; pay with GET or POST"
	}
	g.require(w, r, v, till, reason, false)
	return nil
}

// bodiless leaves out the content of a response to OPTIONS, which no gate stops and which some
// file servers answer as GET.
type bodiless struct{ http.ResponseWriter }

func (w bodiless) Write(p []byte) (int, error) {
	w.Header().Del("Content-Length")
	return len(p), nil
}

// WriteHeader implements http.ResponseWriter.
func (w bodiless) WriteHeader(status int) {
	w.Header().Del("Content-Length")
	w.ResponseWriter.WriteHeader(status)
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
// the code. already says whether the cookie of the browser is valid.
func (g *Gate) enter(w http.ResponseWriter, r *http.Request, v Visit, code string, already error) error {
	value, grant, err := g.server.Keeper.Enter(r.Context(), code)
	switch {
	case err == nil:
		http.SetCookie(w, gate.Cookie(g.cookie, value, g.Origin(), g.server.Keeper.Lifetime(grant)))
	case already == nil: // the link was used in this browser
	case errors.Is(err, gate.ErrUnreadable):
		return g.unreadable(w, r)
	default:
		g.require(w, r, v, g.tillFor(v.URI), "this entry link was used or has expired; open the receipt to get a new one", true)
		return nil
	}
	w.Header()["Cache-Control"] = []string{cacheNever}
	w.Header()["Referrer-Policy"] = []string{noReferrer.value}
	w.Header()["Location"] = []string{v.URI}
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// unreadable answers in place, because an error route might serve the file itself.
func (g *Gate) unreadable(w http.ResponseWriter, r *http.Request) error {
	g.till.refuse(problemLedger, "detail", nil, retryAfter(retryGate)).ServeHTTP(w, r)
	return nil
}

// charge takes the payment of a request as POST /v1/sponsor does. The content follows in
// the same response.
func (g *Gate) charge(w http.ResponseWriter, r *http.Request, v Visit, till till, payment http.Header) (err error) {
	ctx, whole := x402.TrackGatedResponse(r.Context()), false
	defer func() { x402.EndResponse(ctx, whole) }()
	o, confirmation, refused := till.take(ctx, payment, g.server.ClientIP(r))
	var granted gate.Grant
	if refused == nil {
		granted, refused = g.admit(ctx, w, till, o)
	}
	if refused != nil {
		refused.ServeHTTP(w, r)
	} else {
		if confirmation.name != "" {
			w.Header()[confirmation.name] = []string{confirmation.value}
		}
		err = v.Next(w, r, &granted)
	}
	// A payer without the content is answered again: the charge is not acknowledged.
	delivered := refused == nil && err == nil || refused != nil && refused.status == http.StatusPaymentRequired
	if x402.AwaitsResponse(ctx) && delivered {
		err := http.NewResponseController(w).Flush()
		whole = err == nil || errors.Is(err, http.ErrNotSupported)
	}
	return err
}

// admit is the grant of a settled payment, with the cookie for the next requests.
func (g *Gate) admit(ctx context.Context, w http.ResponseWriter, till till, o x402.Outcome) (gate.Grant, *response) {
	if !o.ByPayer {
		return gate.Grant{}, till.failed(problemUsed, o, "It opened this address when it was charged. "+
			"Anyone can read a charged payment on the chain. It opens nothing again without the token or ID of its quote, which x402 version 1 does not have: use the cookie of that response.")
	}
	holder := gate.Holder{Account: o.Account, Name: ledger.AuthorizationName(o.Payer, o.Intent)}
	granted, err := g.server.Keeper.Charged(ctx, holder, g.Access)
	switch {
	case errors.Is(err, gate.ErrUnreadable):
		o.RetryAfter = retryGate
		return granted, till.failed(problemOpen, o, "The payment was charged, but the ledger cannot be read now. Send the same payment again after the time in Retry-After.")
	case err != nil:
		return granted, till.challenge(till.paymentRequired(till.refusal("the access of this payment has ended, or it was refunded; sign a new payment")))
	}
	if value, err := g.server.Keeper.Admit(ctx, holder); err == nil {
		http.SetCookie(w, gate.Cookie(g.cookie, value, g.Origin(), g.server.Keeper.Lifetime(granted)))
	}
	return granted, nil
}

// tillFor is the till of an address behind the gate.
func (g *Gate) tillFor(uri string) till {
	t := g.till
	address := g.Start
	if path, _, _ := strings.Cut(uri, "?"); len(path) <= maxResourcePath {
		address = g.Origin() + path
	}
	resource := g.server.Offer.ResourceAt(address)
	t.refusal = func(reason string) *x402.Quote { return g.server.Payments.QuoteFor(resource, reason) }
	return t
}

// require answers 402: the terms for programs, with a page for people.
func (g *Gate) require(w http.ResponseWriter, r *http.Request, v Visit, till till, reason string, expired bool) {
	wanted := v.URI
	if len(wanted) > maxBack {
		wanted = strings.TrimPrefix(g.Start, g.Origin())
	}
	pay := g.server.Offer.URL(offer.PathMethods) + "?back=" + url.QueryEscape(g.server.Keeper.Back(g.Gate, wanted))
	link := header{"Link", "<" + pay + `>; rel="payment"; type="text/html"`}
	res := till.paymentRequired(till.refusal(reason), link)
	if prefersPage(r) {
		f := g.server.frame(r, "")
		content := struct {
			Pay, Opens string
			Expired    bool
		}{pay, opens(f, g.Access), expired}
		p := page.Gate.Render(f, g.server.Offer.Name, content)
		shown := till.page(http.StatusPaymentRequired, cacheNever, p, link)
		shown.required, res = res.required, shown
	}
	till.challenge(res).ServeHTTP(w, r)
}

// opens says for how long a payment opens the gate.
func opens(f page.Frame, access time.Duration) string {
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

// credentials are what a request proves. The handlers behind the gate do not get them.
type credentials struct {
	cookie, code string
	payment      http.Header // the headers with a payment
}

// takeCredentials removes the credentials from a request.
func (g *Gate) takeCredentials(r *http.Request) (c credentials) {
	c.cookie = takeCookie(r.Header, g.cookie)
	if strings.Contains(r.URL.RawQuery, gate.Parameter) {
		c.code = r.URL.Query().Get(gate.Parameter)
		_, r.URL.RawQuery, _ = strings.Cut(withoutCode("/?"+r.URL.RawQuery), "?")
	}
	if g.server.pays(r.Header) {
		c.payment = make(http.Header)
		for _, name := range []string{headerSignature, headerSignatureV1, g.server.Offer.MPP} {
			if name != "" && (name != "Authorization" || g.till.challenges.Answered(r.Header)) {
				c.payment[name] = r.Header[name]
				delete(r.Header, name)
			}
		}
	}
	return c
}

// takeCookie removes all cookies of a name and returns the value of the first.
func takeCookie(h http.Header, name string) (value string) {
	lines := h["Cookie"]
	if !strings.Contains(strings.Join(lines, ";"), name+"=") {
		return ""
	}
	var kept []string
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ";") {
			item = strings.TrimSpace(item)
			if found, is := strings.CutPrefix(item, name+"="); !is {
				kept = append(kept, item)
			} else if value == "" {
				value = found
			}
		}
	}
	delete(h, "Cookie")
	if len(kept) > 0 {
		h["Cookie"] = []string{strings.Join(kept, "; ")}
	}
	return value
}

// withoutCode is an address without its host and the code of an entry link. It leads to no
// other host: a request can have an absolute URI (RFC 9112 section 3.2.2), and a browser
// reads two leading slashes as a host.
func withoutCode(uri string) string {
	path, query, _ := strings.Cut(uri, "?")
	if !strings.HasPrefix(path, "/") {
		path = "/"
	}
	if strings.HasPrefix(path, "//") || strings.HasPrefix(path, `/\`) {
		path = "/." + path
	}
	var kept []string
	for item := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(item, "="); name != gate.Parameter && item != "" {
			kept = append(kept, item)
		}
	}
	if len(kept) == 0 {
		return path
	}
	return path + "?" + strings.Join(kept, "&")
}
