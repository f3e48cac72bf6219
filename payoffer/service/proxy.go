package service

import (
	"net/http"
	"net/netip"
	"net/url"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// clientIP is the address that the rate limit counts a request by, as given says.
// Where that is a proxy's, all buyers are one, and whoever uses up the attempts of
// all is told of nowhere else: it is logged once.
func (svc *Service) clientIP(given func(*http.Request) string) func(*http.Request) string {
	if !isPublic(svc.Offer.BaseURL) {
		return given
	}
	var once sync.Once
	return func(r *http.Request) string {
		address := given(r)
		if isUntrustedProxy(r, address) {
			once.Do(func() {
				svc.logger.Warn("all buyers count as one for rate_limit, so that one of them can lock out the others: a proxy in front sends "+
					"X-Forwarded-For and is not trusted; if it is yours, add 'servers { trusted_proxies static private_ranges }' to the global options, and trusted_proxies_strict on a line below it",
					"proxy", address)
			})
		}
		return address
	}
}

// isUntrustedProxy reports whether a request counts by the address of a peer on
// this machine or in its network that forwards for others.
func isUntrustedProxy(r *http.Request, address string) bool {
	if len(r.Header["X-Forwarded-For"]) == 0 {
		return false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	counted, errCounted := netip.ParseAddr(address)
	return err == nil && errCounted == nil && peer.Addr().Unmap().WithZone("") == counted.Unmap().WithZone("") && isNear(counted)
}

// isNear reports whether an address is of this machine or of its network.
func isNear(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast()
}

// isPublic reports whether an origin is meant for others than this machine and
// its network.
func isPublic(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || offer.IsLoopback(u.Hostname()) {
		return false
	}
	address, err := netip.ParseAddr(u.Hostname())
	return err != nil || !isNear(address)
}
