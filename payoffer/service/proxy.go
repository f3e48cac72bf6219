package service

import (
	"cmp"
	"net/http"
	"net/netip"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// clientIP returns the address by which the rate limit counts a request. It warns once if
// that is an untrusted proxy, because all payers then share one limit: a Unix socket, a proxy
// in the local network, or one that names itself as a CDN does.
func (s *Service) clientIP(configured func(*http.Request) string) func(*http.Request) string {
	if offer.IsLoopback(offer.Hostname(s.Offer.BaseURL)) {
		return configured
	}
	var once sync.Once
	return func(r *http.Request) string {
		address := configured(r)
		remote, _ := netip.ParseAddrPort(r.RemoteAddr)
		peer := remote.Addr().Unmap().WithZone("")
		proxy := peer.IsPrivate() || peer.IsLoopback() || r.Header.Get("Via") != "" || r.Header.Get("CDN-Loop") != ""
		socket := r.RemoteAddr == "@" && (address == "" || address == "@") // Caddy's words for a socket
		if socket || proxy && r.Header.Get("X-Forwarded-For") != "" && address == peer.String() {
			once.Do(func() {
				s.logger.Warn("all payers share one rate limit", "proxy", cmp.Or(address, r.RemoteAddr),
					"hint", "the proxy in front is not trusted; if it is yours, add 'servers { trusted_proxies static private_ranges }' "+
						"to the global options (for a CDN its addresses; for a Unix socket trusted_proxies_unix, and the proxy must "+
						"send X-Forwarded-For), and trusted_proxies_strict on a line below it")
			})
		}
		return address
	}
}
