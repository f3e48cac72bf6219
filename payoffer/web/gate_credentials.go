package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
)

// Passage is what a request carries through the gates of its way: what it proves, and the gates that it has passed. The
// first gate removes it from the request, because the site must not get it. It serves one request.
type Passage struct {
	read    bool
	code    string      // of an entry link
	payment http.Header // the headers with a payment
	cookies [][2]string // names and values of those of the gates
	open    []*opened   // the gates around the handlers that run now
	last    *opened     // the gate that was opened last
}

// opened is an open gate of a passage.
type opened struct {
	gate     *Gate
	grant    gate.Grant
	byHeader bool        // the payment of the request opened it
	held     *paidWriter // the response that the payment is charged for, or nil
}

// unpaid reports whether the payment that opened the gate is not charged yet.
func (o *opened) unpaid() bool { return o.held != nil && o.held.header != nil }

// String keeps what a request proves out of logs and templates, which can print any variable of a request.
func (p *Passage) String() string { return "" }

// Grant is what the gate that was opened last knows of the payment, and when it ends there (RFC 3339, UTC). A payment
// that is not charged yet has only a rail and a payer.
func (p *Passage) Grant() (g gate.Grant, expires string) {
	if p.last == nil {
		return g, ""
	}
	return p.last.grant, p.last.grant.ExpiresAt(p.last.gate.Access)
}

// openGate returns the open gate of the same offer, or nil.
func (p *Passage) openGate(s *Server) *opened {
	for _, o := range slices.Backward(p.open) {
		if o.gate.server == s {
			return o
		}
	}
	return nil
}

// unusedPayment returns the payment of the request, or nil if it opened a gate around this one.
func (p *Passage) unusedPayment() http.Header {
	if slices.ContainsFunc(p.open, func(o *opened) bool { return o.byHeader }) {
		return nil
	}
	return p.payment
}

// enter adds an open gate until leave is called.
func (p *Passage) enter(o *opened) (leave func()) {
	p.open, p.last = append(p.open, o), o
	return func() { p.open = p.open[:len(p.open)-1] }
}

// markCharged records what the payment of a held response opens.
func (p *Passage) markCharged(held *paidWriter, granted gate.Grant) {
	for _, o := range p.open {
		if o.held == held {
			o.grant = granted
		}
	}
}

// takeCredentials removes the credentials from a request. It returns the cookie of this gate's offer and keeps what
// another gate may need.
func (g *Gate) takeCredentials(r *http.Request, p *Passage) (cookie string) {
	if !p.read {
		p.read = true
		if r.URL.RawQuery != "" {
			if query := r.URL.Query(); query.Has(gate.Parameter) {
				p.code = query.Get(gate.Parameter)
				_, r.URL.RawQuery, _ = strings.Cut(withoutCode("/?"+r.URL.RawQuery), "?")
			}
		}
		for _, name := range []string{headerSignature, headerSignatureV1} {
			p.keep(name, r.Header[name])
			delete(r.Header, name)
		}
	}
	p.keep(g.server.Offer.MPP, g.till.challenges.Take(r.Header))
	if cookie = takeCookie(r.Header, g.cookie); cookie != "" {
		p.cookies = append(p.cookies, [2]string{g.cookie, cookie})
	}
	for _, taken := range p.cookies { // in an error route it was taken before
		if taken[0] == g.cookie {
			cookie = taken[1]
		}
	}
	return cookie
}

func (p *Passage) keep(field string, values []string) {
	if len(values) == 0 {
		return
	}
	if p.payment == nil {
		p.payment = make(http.Header)
	}
	p.payment[field] = append(p.payment[field], values...)
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
		name, _, _ := strings.Cut(item, "=")
		if decoded, err := url.QueryUnescape(name); item != "" && (err != nil || decoded != gate.Parameter) {
			kept = append(kept, item)
		}
	}
	if len(kept) == 0 {
		return path
	}
	return path + "?" + strings.Join(kept, "&")
}
