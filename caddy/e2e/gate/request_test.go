package gate

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const proxied = `
http://site.localhost:{PORT} {
	pay_offer_gate
	reverse_proxy {APP}
}
`

// The header of a payment is a pass also after its seller takes money at another address. (Of a test network, only payments
// to the present address open.)
func TestChargedPaymentOpensAfterPayeeChange(t *testing.T) {
	t.Parallel()
	s := &shop{T: t, port: payoffertest.FreePort(t), payee: chain.NewAddress(t), facilitator: newFacilitator(t), app: newApp(t)}
	dir := t.TempDir()
	s.start(dir, proxied, "base-sepolia", "base")
	url := s.url("site", "/page")
	p, missing := s.sign(url), s.sign(url)
	paid := s.ask(http.MethodGet, url, s.v2(p))
	require.Equal(t, secret, paid.Body)
	s.app.on("/missing", answers(http.StatusNotFound))
	require.Equal(t, http.StatusNotFound, s.ask(http.MethodGet, s.url("site", "/missing"), s.v2(missing)).Status)

	s.process.Terminate()
	s.process.Await(t)
	s.payee = chain.NewAddress(t)
	s.start(dir, proxied, "base-sepolia", "base")
	require.Equal(t, s.payee, s.sign(url).To)
	require.Equal(t, secret, s.ask(http.MethodGet, url, s.v2(p)).Body, "by the same header")
	require.Equal(t, secret, s.ask(http.MethodGet, url, pass(paid)).Body, "by the cookie")
	require.Equal(t, 1, s.facilitator.settles(p))
	runs := s.app.runs("/page")
	a := s.ask(http.MethodGet, url, s.v2(missing))
	require.Equal(t, http.StatusPaymentRequired, a.Status, "a payment to the former address that was not charged")
	require.Zero(t, s.facilitator.settles(missing))
	require.Equal(t, runs, s.app.runs("/page"))
}

// double is an offer on two chains with long texts, and a gate, each on a host with a name of nearly 100 bytes: what the
// guide for proxies promises to fit.
const double = `
http://pay.{HOST}:{PORT} {
	pay_offer {
		id double
		base_url http://pay.{HOST}:{PORT}
		site_url http://{HOST}:{PORT}
		name "{LONG}"
		description "{LONG}"
		card https://checkout.example/double
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR}
			rpc off
		}
		usdc base {PAYEE} {
			facilitator {FACILITATOR}
			rpc off
		}
	}
	respond 404
}
http://{HOST}:{PORT} {
	pay_offer_gate {
		offer double
	}
	reverse_proxy {APP}
}
`

// maxHead is the space for the status line and the headers of a response in nginx, as it is by default (proxy_buffer_size),
// less a margin.
const maxHead = 4000

func TestGateTermsFitNginxBuffer(t *testing.T) {
	t.Parallel()
	host := strings.Repeat("a", 42) + "." + strings.Repeat("b", 42) + ".localhost"
	s := openShop(t, strings.NewReplacer("{HOST}", host, "{LONG}", strings.Repeat("long ", 15), "{PAYEE}", chain.NewAddress(t).Hex()).Replace(double))
	url := "http://" + host + ":" + s.port + "/page"
	paid := s.ask(http.MethodGet, url, s.v2(s.sign(url)))
	require.Equal(t, secret, paid.Body)
	require.Len(t, paid.Header.Values("Vary"), 1)
	longest := 0
	for _, filling := range []string{"x", "&", `"`, "<", "%3C", "%22", "\\", "ü", "\xff", "+", "%"} {
		for _, path := range []int{1, 100, 160, 161, 300, 4000} {
			for _, query := range []int{0, 139, 140, 200, 4000} {
				target := "/" + strings.Repeat(filling, path)[:path-1]
				if query > 0 {
					target += "?" + strings.Repeat(filling, query)[:query-1]
				}
				for _, accept := range []string{"*/*", "text/html"} {
					raw := s.raw("GET " + target + " HTTP/1.1\r\nHost: " + host + ":" + s.port + "\r\nConnection: close\r\nAccept: " + accept + "\r\n\r\n")
					if strings.HasPrefix(raw, "HTTP/1.1 400 ") {
						continue // the target is no address
					}
					head, _, whole := strings.Cut(raw, "\r\n\r\n")
					require.True(t, whole, "%q: %q", target, raw)
					require.True(t, strings.HasPrefix(head, "HTTP/1.1 402 "), target)
					longest = max(longest, len(head)+4)
					require.Less(t, len(head)+4, maxHead, "%q, %d and %d bytes, Accept %s:\n%s", filling, path, query, accept, head)
					require.Equal(t, 1, strings.Count(head, "\r\nVary: "))
					require.Contains(t, head, ", "+paid.Header.Get("Vary")+"\r\n", "after what the terms depend on")
					require.Contains(t, head, "\r\nCache-Control: no-store\r\n")
				}
			}
		}
	}
	t.Logf("the longest has %d bytes", longest)
}

// raw sends a raw request and returns the whole response. The server can reset the connection after an invalid one.
func (s *shop) raw(request string) string {
	s.Helper()
	connection := lab.Must(net.Dial("tcp", "127.0.0.1:"+s.port))(s)
	defer connection.Close()
	lab.Must(io.WriteString(connection, request))(s)
	response, _ := io.ReadAll(connection)
	return string(response)
}
