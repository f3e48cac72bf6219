package buyer

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
)

// points are those of a buyer.
func points(t *testing.T) (found []failpoint.Point) {
	t.Helper()
	for _, point := range failpoint.Points() {
		if strings.HasPrefix(string(point), "buy.") {
			found = append(found, point)
		}
	}
	require.NotEmpty(t, found)
	return found
}

func TestKilledAtEachPointItPaysOnce(t *testing.T) {
	m := openMarket(t)
	for _, point := range points(t) {
		t.Run(string(point), func(t *testing.T) {
			m := &market{t, m.Chain, m.facilitator}
			url, payee := m.sell()
			p := newPerson(t, m.NewBuyer(t))
			p.payKilledAt(point, url, "--yes")
			before := p.kept()
			if point == failpoint.BuySigned {
				require.Empty(t, before, "nothing was kept, and nothing sent")
			} else {
				require.Len(t, before, 1)
			}
			got := p.pay(url, "--yes")
			require.Zero(t, got.code, got.err)
			m.requireOneTransfer(p, payee)
			if len(before) > 0 {
				require.Equal(t, before[0].Nonce, p.kept()[0].Nonce)
			}
			require.Equal(t, "paid", p.kept()[0].State)
			require.Empty(t, p.kept()[0].Header)
			again := p.pay(url, "--yes")
			require.Zero(t, again.code, again.err)
			m.requireOneTransfer(p, payee)
		})
	}
}

// between stands between a buyer and a seller, and is told of each payment before it is passed on and after its answer came.
type between struct {
	*httptest.Server
	sent, answered func()
}

func standBetween(t *testing.T, target *url.URL) *between {
	t.Helper()
	b := &between{sent: func() {}, answered: func() {}}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
	}}
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.Header.Get("PAYMENT-SIGNATURE") != "" {
			b.answered()
		}
		return nil
	}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("PAYMENT-SIGNATURE") != "" {
			b.sent()
			r = r.WithContext(t.Context()) // the payment goes on without its buyer
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(b.Close)
	return b
}

// Killed while the payment is on its way, and while its answer is, against both sellers. The reference seller does not know
// a payment again: the buyer is told no, and no second one is signed.
func TestKilledOnTheWayItPaysOnce(t *testing.T) {
	m := openMarket(t)
	for name, seller := range map[string]func(m *market) (string, string, func(p *person)){
		"the binary": func(m *market) (string, string, func(*person)) {
			url, payee := m.sell()
			return url, "POST", func(p *person) { m.requireOneTransfer(p, payee) }
		},
		"the reference seller": func(m *market) (string, string, func(*person)) {
			payee := chain.NewAddress(m)
			return node.StartSeller(m, m.facilitator, payee).URL + "/report", "GET", func(p *person) { m.requireOneTransfer(p, payee) }
		},
	} {
		for _, moment := range []string{"sent", "answered"} {
			t.Run(name+" "+moment, func(t *testing.T) {
				m := &market{t, m.Chain, m.facilitator}
				address, method, requireOne := seller(m)
				target, err := url.Parse(address)
				require.NoError(t, err)
				b := standBetween(t, target)
				p := newPerson(t, m.NewBuyer(t))
				args := []string{b.URL + target.Path, "--yes", "--method", method, "--wait", "20s"}

				var kills atomic.Int64
				command := p.command(server.Released(t), args...)
				kill := func() {
					if kills.Add(1) == 1 {
						_ = command.Process.Kill()
					}
				}
				if moment == "sent" {
					b.sent = kill
				} else {
					b.answered = kill
				}
				got := p.end(command)
				require.Equal(t, -1, got.code, "it was not killed: %+v", got)
				require.Len(t, p.kept(), 1)
				require.Equal(t, "open", p.kept()[0].State)

				again := p.pay(args...)
				if name == "the binary" {
					require.Zero(t, again.code, again.err)
					require.Contains(t, again.out, "/v1/receipt/", "the token of the quote proves that it is the payer")
				} else {
					require.Contains(t, []int{0, 1}, again.code, again.err)
				}
				requireOne(p)
				last := p.pay(args...)
				require.Equal(t, again.code, last.code)
				requireOne(p)
			})
		}
	}
}
