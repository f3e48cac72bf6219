package payoffer

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// hosted looks at a server that has something of the offers. It is called while that is
// provisioned, and so before anybody can connect.
func (app *App) hosted(ctx caddy.Context) error {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok { // it is not part of a server, as in a test
		return nil
	}
	for _, listen := range server.Listen {
		if err := checkListen(listen); err != nil {
			return err
		}
	}
	app.mu.Lock()
	defer app.mu.Unlock()
	known := slices.ContainsFunc(server.Listen, func(listen string) bool { return slices.Contains(app.listening, listen) })
	if !known && believesEverybody(server) {
		app.logger.Warn("everybody is believed to be a proxy, and so whatever address of a buyer a request tells: rate_limit stops nobody, and logs hold "+
			"addresses that somebody made up; name the proxies that stand in front alone in trusted_proxies (in the shipped Caddyfile TRUSTED_PROXIES)",
			zap.Strings("listen", server.Listen))
	}
	for _, listen := range server.Listen {
		if !slices.Contains(app.listening, listen) {
			app.listening = append(app.listening, listen)
		}
	}
	return app.keepDemoHere()
}

// checkListen refuses an address that nobody can listen on, which Caddy finds when the
// server starts.
func checkListen(listen string) error {
	address, err := caddy.ParseNetworkAddress(listen)
	if err == nil && !address.IsUnixNetwork() && strings.ContainsAny(address.Host, ", ;") {
		return fmt.Errorf("%q is no address to listen on; write several with spaces between (default_bind, or in the shipped Caddyfile BIND)", address.Host)
	}
	return nil
}

// strangers are addresses of IPv4 and of IPv6 that no proxy has (RFC 6890, 5737, 3849 and 9637).
var strangers = [][]string{{"0.0.0.1", "203.0.113.1"}, {"2001:db8::1", "3fff::1"}}

// believesEverybody reports whether a server takes any client for a trusted proxy, as
// Caddy itself decides it.
func believesEverybody(server *caddyhttp.Server) bool {
	believed := func(address string) bool {
		r := &http.Request{Method: http.MethodGet, URL: new(url.URL), Header: http.Header{}, RemoteAddr: net.JoinHostPort(address, "1")}
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, server)
		trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
		return trusted
	}
	for _, family := range strangers {
		if !slices.ContainsFunc(family, func(address string) bool { return !believed(address) }) {
			return true
		}
	}
	return false
}
