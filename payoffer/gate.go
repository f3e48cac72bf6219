package payoffer

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
)

func init() {
	caddy.RegisterModule(Gate{})
	httpcaddyfile.RegisterDirective("pay_offer_gate", parseGate)
	// After authentication, so that no payer is charged and then refused by a login.
	httpcaddyfile.RegisterDirectiveOrder("pay_offer_gate", httpcaddyfile.Before, "request_header")
}

const defaultAccess = 30 * 24 * time.Hour

// Gate passes a request on to the next handler if its sender paid the offer. Otherwise it responds with 402 and how to pay.
//
// It sets these placeholders for the handlers after it. In a request that pays, the payment and the end of the access are
// empty unless charge is "first", because nothing is charged yet:
//
// Placeholder | Description
// ------------|---------------
// `{http.pay_offer.payment}` | The payment, the same in each request; `pass:<id>` for a pass
// `{http.pay_offer.rail}` | The payment method, such as `card`; `pass` for a pass
// `{http.pay_offer.payer}` | The address of the payer's wallet; empty for methods without one
// `{http.pay_offer.expires}` | When the access ends (RFC 3339, UTC)
type Gate struct {
	// The id of the offer whose payment opens the gate. Default: the only offer.
	Offer string `json:"offer,omitempty"`

	// Where payers arrive: a URL, or a path on site_url, such as /course/. Required with a
	// matcher. Default: /.
	Start string `json:"start,omitempty"`

	// How long one payment opens the gate, at least 1m. Default: 30d.
	Access caddy.Duration `json:"access,omitempty"`

	// When a payment in a request is charged: "first" is before the application runs. Default:
	// before a successful response is sent.
	Charge string `json:"charge,omitempty"`

	log   requestLog
	app   *App
	id    string           // of the offer, or empty
	route offer.Gate       // its start is a path before acquire, unless Start is a URL
	offer *service.Service // nil before acquire, and if the start fails
	gate  *web.Gate        // the same
}

// CaddyModule returns the Caddy module information.
func (Gate) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.pay_offer_gate",
		New: func() caddy.Module { return new(Gate) },
	}
}

// parseGate reads the directive. With a matcher it needs a start, because the gated site
// may have pages that are not gated.
func parseGate(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	h.Next() // the directive's name
	matcher, err := h.ExtractMatcherSet()
	if err != nil {
		return nil, err
	}
	gate := new(Gate)
	if err := gate.UnmarshalCaddyfile(h.Dispenser); err != nil {
		return nil, err
	}
	if matcher != nil && gate.Start == "" {
		h.Reset()
		h.Next()
		return nil, h.Err("pay_offer_gate has a matcher and no start; add the page at which payers arrive, such as 'start /course/'")
	}
	return h.NewRoute(matcher, gate), nil
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	pay_offer_gate [<matcher>] {
//	    offer  <id>
//	    start  <url or path>
//	    access <duration>
//	    charge first
//	}
func (g *Gate) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	return g.options().unmarshal(d, "pay_offer_gate [<matcher>] { ... }")
}

func (g *Gate) options() options {
	return options{"offer": &g.Offer, "start": &g.Start, "access": &g.Access, "charge": &g.Charge}
}

// Provision checks the options and registers the gate. The app connects it with its offer,
// which may be provisioned later.
func (g *Gate) Provision(ctx caddy.Context) error {
	value, err := ctx.App("pay_offer")
	if err != nil {
		return err
	}
	r := newResolver()
	g.log, g.app, g.id = requestLog{ctx.Logger(accessLog{}), ctx.Logger()}, value.(*App), r.text("offer", g.Offer, 100)
	g.route.Start = cmp.Or(resolve(r, "start", g.Start, parseStart), "/")
	if g.Start != "" && r.replace(g.Start) == "" {
		r.fail("start", unset(g.Start, "the page is empty", "write the page at which payers arrive, such as /course/"))
	}
	g.route.Access = cmp.Or(r.duration("access", g.Access), defaultAccess)
	if g.route.Access > 0 && g.route.Access < time.Minute {
		r.fail("access", fmt.Errorf("%s is too short; write at least 1m, such as 30d", g.route.Access))
	}
	switch charge := r.text("charge", g.Charge, 100); charge {
	case "":
	case "first":
		g.route.ChargeFirst = true
	default:
		r.fail("charge", fmt.Errorf("%q is not known; write 'charge first', or leave the option out to charge after the status of the application", charge))
	}
	if err := errors.Join(r.errs...); err != nil {
		return err
	}
	g.app.gates = append(g.app.gates, g)
	return g.app.addListeners(ctx)
}

// parseStart checks a path, or a URL, which it returns in its canonical form.
func parseStart(s string) (string, error) {
	path, address := "", s
	if strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//") {
		path, address = s, "https://localhost"+s
	}
	u, err := offer.ParseURL(address)
	switch {
	case err != nil && !strings.HasPrefix(s, "/") && !strings.Contains(s, "://"):
		return "", fmt.Errorf("%q is neither a path nor a URL; begin a path with /, such as /course/", s)
	case err != nil:
		return "", err
	case strings.ContainsAny(s, "?#"):
		return "", fmt.Errorf("%q has a query or a fragment; write only the path or the URL of the page, such as /course/", s)
	}
	return cmp.Or(path, offer.Origin(u)+cmp.Or(u.EscapedPath(), "/")), nil
}

// connect finds the offer of the gate and completes its start.
func (g *Gate) connect(offers []*service.Service) error {
	var ids []string
	for _, o := range offers {
		if o.Offer.ID == g.id || g.id == "" && len(offers) == 1 {
			if strings.HasPrefix(g.route.Start, "/") {
				g.route.Start = o.Offer.SiteURL + g.route.Start
			}
			g.offer = o
			return nil
		}
		ids = append(ids, o.Offer.ID)
	}
	if len(ids) == 0 {
		return fmt.Errorf("pay_offer_gate %s: there is no offer to pay; add the directive pay_offer to a site", g.route.Start)
	}
	slices.Sort(ids) // Caddy provisions servers in any order
	problem := "there are several offers"
	if g.id != "" {
		problem = fmt.Sprintf("no offer has the id %q", g.id)
	}
	return fmt.Errorf("pay_offer_gate %s: %s; name the one whose payments open it, such as 'offer %s' (valid ids: %s)",
		g.route.Start, problem, ids[0], strings.Join(ids, ", "))
}

// withoutRepeats sorts gates by their starts. Of gates with one start, the documents
// describe the one with the shortest access.
func withoutRepeats(gates []offer.Gate) []offer.Gate {
	slices.SortFunc(gates, func(a, b offer.Gate) int {
		return cmp.Or(strings.Compare(a.Start, b.Start), cmp.Compare(a.Access, b.Access))
	})
	return slices.CompactFunc(gates, func(a, b offer.Gate) bool { return a.Start == b.Start })
}

// ServeHTTP passes a request on if its payment opens the gate.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	_ = g.app.Acquire()
	if g.gate == nil {
		unavailable(w)
		return nil
	}
	serve := func(w http.ResponseWriter) error { return g.serve(w, r, next) }
	// An error route might answer OPTIONS, which needs no payment, by the file itself.
	return g.log.serve(w, r, hasSecret(r) || r.Method == http.MethodOptions, serve)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Gate)(nil)
	_ caddyfile.Unmarshaler       = (*Gate)(nil)
	_ caddyhttp.MiddlewareHandler = (*Gate)(nil)
)
