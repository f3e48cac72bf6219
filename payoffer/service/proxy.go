package service

import (
	"net/http"
	"net/netip"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// clientIP returns the address by which the rate limit counts a request. It warns once if
// that is an untrusted proxy in the local network, because all payers then share one limit.
func (svc *Service) clientIP(configured func(*http.Request) string) func(*http.Request) string {
	if offer.IsLoopback(offer.Hostname(svc.Offer.BaseURL)) {
		return configured
	}
	var once sync.Once
	return func(r *http.Request) string {
		address := configured(r)
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		local := err == nil && (peer.Addr().Unmap().IsPrivate() || peer.Addr().Unmap().IsLoopback())
		if local && r.Header.Get("X-Forwarded-For") != "" && address == peer.Addr().Unmap().WithZone("").String() {
			once.Do(func() {
				svc.logger.Warn("all payers share one rate limit", "proxy", address, "hint", "the proxy in front is not trusted; "+
					"if it is yours, add 'servers { trusted_proxies static private_ranges }' to the global options, and trusted_proxies_strict on a line below it")
			})
		}
		return address
	}
}
