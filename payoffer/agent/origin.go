package agent

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// allows refuses requests that a web page of somebody else made through the
// browser of a person who runs the service on loopback (DNS rebinding; MCP
// "Security Warning" of the Streamable HTTP transport). A client that is no
// browser sends no Origin; HTTP/1.0 needs no Host. The configured origins are
// always welcome.
//
// A public service has nothing to guard: it takes no credentials, answers
// everyone the same, and is meant to be called by scripts of any origin. Its
// Host is not compared either, for proxies in front of it rewrite that.
func (e *Endpoint) allows(r *http.Request) bool {
	if !isLoopback(e.Offer.BaseURL) {
		return true
	}
	if r.Host != "" && !isLoopback("http://"+r.Host) {
		return false
	}
	return !slices.ContainsFunc(r.Header["Origin"], func(origin string) bool {
		return !isLoopback(origin) && origin != e.Offer.BaseURL && origin != e.Offer.SiteURL
	})
}

// isLoopback reports whether an origin names this machine. The opaque origin
// "null" and anything that is no origin do not.
func isLoopback(origin string) bool {
	canonical, err := offer.ParseOrigin(origin)
	if err != nil {
		return false
	}
	u, err := url.Parse(canonical)
	return err == nil && offer.IsLoopback(u.Hostname())
}
