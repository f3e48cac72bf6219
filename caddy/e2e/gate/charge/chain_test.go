package charge

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
)

// chained is a site with a chain of gates of the offer "shop". Gate n charges first if bit n of first is set.
type chained struct {
	name string
	// nested: each gate is in the handle block of the one before. Otherwise they are beside one another.
	nested bool
	// reversed: the gate with the longest path comes first.
	reversed bool
	gates    int
	first    uint
}

// paths are those of the gates of a chain, the first of which has all.
var paths = []string{"/", "/a/", "/a/b/"}

func (c chained) gate(n int) string {
	access := []string{"1h", "48h", "24h"}[n]
	first := ""
	if c.first>>n&1 == 1 {
		first = "charge first"
	}
	matcher := ""
	if !c.nested {
		matcher = paths[n] + "*"
	}
	return "pay_offer_gate " + matcher + " {\noffer shop\nstart http://" + c.name + ".localhost:{PORT}" + paths[n] + "\naccess " + access + "\n" + first + "\n}\n"
}

func (c chained) site() string {
	body := "reverse_proxy {APP}\n"
	for n := range c.gates {
		at := n
		if c.nested || !c.reversed {
			at = c.gates - 1 - n
		}
		if body = c.gate(at) + body; c.nested {
			body = "handle " + paths[at] + "* {\n" + body + "}\n"
		}
	}
	return "http://" + c.name + ".localhost:{PORT} {\nroute {\n" + body + "}\n}\n"
}

// everyChain are chains of two and three gates, each with every choice of the gates that charge first.
func everyChain() (all []chained) {
	for gates := 2; gates <= 3; gates++ {
		for first := range uint(1) << gates {
			for kind, c := range map[string]chained{"nested": {nested: true}, "beside": {}, "reversed": {reversed: true}} {
				c.name, c.gates, c.first = fmt.Sprintf("%s%d-%03b", kind, gates, first), gates, first
				all = append(all, c)
			}
		}
	}
	return all
}

// Who pays once enters all gates of an offer.
func TestOnePaymentOpensAChainOfGates(t *testing.T) {
	t.Parallel()
	text := `
http://whole.localhost:{PORT} {
	pay_offer_gate {
		start http://whole.localhost:{PORT}/
	}
	handle /a/b/* {
		pay_offer_gate {
			start http://whole.localhost:{PORT}/a/b/
		}
		reverse_proxy {APP}
	}
	reverse_proxy {APP}
}
`
	chains := append(everyChain(), chained{name: "whole", gates: 3})
	for _, c := range chains[:len(chains)-1] {
		text += c.site()
	}
	s := openShop(t, text)
	receipt := s.sell("shop", "http://localhost:"+s.port, "chains")
	for _, c := range chains {
		t.Run(c.name, func(t *testing.T) {
			s, target := s.in(t), paths[c.gates-1]+c.name
			url := s.url(c.name, target)
			p := s.sign(url)
			for n := 1; n <= 2; n++ { // the header is a pass, too
				a := s.ask(http.MethodGet, url, s.v2(p))
				require.Equal(t, http.StatusOK, a.Status, a.Body)
				require.Equal(t, secret, a.Body)
				require.Equal(t, 1, s.facilitator.settles(p))
				require.Equal(t, n, s.app.runs(target))
				if n == 1 {
					require.NotEmpty(t, confirmation(a))
					s.opensAll(c, pass(a))
				}
			}
			a := s.ask(http.MethodGet, url+"?pay_offer="+s.code(receipt), nil)
			require.Equal(t, http.StatusSeeOther, a.Status, a.Body)
			require.Equal(t, target, a.Header.Get("Location"))
			s.opensAll(c, pass(a))

			refused := s.sign(url)
			s.facilitator.fail(refused, refuses)
			runs := s.app.runs(target)
			a = s.ask(http.MethodGet, url, s.v2(refused))
			require.Equal(t, http.StatusServiceUnavailable, a.Status, a.Body)
			s.requireNoContent(a)
			require.Equal(t, runs+bit(c.first == 0), s.app.runs(target), "a gate that charges first lets nothing in before")

			missing := s.sign(url)
			s.app.on(target, answers(http.StatusNotFound))
			a = s.ask(http.MethodGet, url, s.v2(missing))
			require.Equal(t, http.StatusNotFound, a.Status, a.Body)
			require.Equal(t, bit(c.first != 0), s.facilitator.settles(missing))
		})
	}
}

// opensAll requires that a pass opens the site at each of its gates.
func (s *shop) opensAll(c chained, pass http.Header) {
	s.Helper()
	require.NotNil(s, pass)
	for _, path := range paths[:c.gates] {
		if c.nested && path != paths[c.gates-1] {
			continue // nothing is there
		}
		a := s.ask(http.MethodGet, s.url(c.name, path), pass)
		require.Equal(s, secret, a.Body, path)
	}
}

// Two offers have gates in one chain. A request pays none of them by its header, unless the outer one is open.
func TestAChainOfTwoOffersIsPaidOneAfterTheOther(t *testing.T) {
	t.Parallel()
	s := openShop(t, `
http://other.localhost:{PORT} {
	import offer other other.localhost {OTHERPAYEE} off 42
}
(gate) {
	pay_offer_gate {
		offer {args[0]}
		start http://{args[1]}.localhost:{PORT}/
		{args[2:]}
	}
}
http://two.localhost:{PORT} {
	route {
		import gate shop two access 1h
		import gate other two access 1h
		reverse_proxy {APP}
	}
}
http://inner.localhost:{PORT} {
	route {
		import gate shop inner access 1h
		import gate other inner charge first
		reverse_proxy {APP}
	}
}
http://second.localhost:{PORT} {
	import gate other second access 1h
	reverse_proxy {APP}
}
`, "{OTHERPAYEE}", chain.NewAddress(t).Hex())
	own := s.sell("shop", "http://localhost:"+s.port, "two")
	other := s.sell("other", s.url("other", ""), "two")
	for _, site := range []string{"two", "inner"} {
		t.Run(site, func(t *testing.T) {
			s, target := s.in(t), "/"+site
			url := s.url(site, target)
			forOwn, forOther := s.sign(url), s.sign(s.url("second", target))
			require.NotEqual(t, forOwn.To, forOther.To)
			for _, p := range []*payment{forOwn, forOther} {
				for name, way := range ways {
					a := s.ask(http.MethodGet, url, way(s, p))
					require.Equal(t, http.StatusPaymentRequired, a.Status, "%s: %s", name, a.Body)
					s.requireNoContent(a)
					require.Zero(t, s.facilitator.settles(p))
					if p == forOwn {
						require.Contains(t, a.Body, `"error":"payment required"`, "the payment is not offered to the inner gate")
					}
				}
			}
			require.Zero(t, s.app.runs(target))

			entry := url + "?pay_offer=" + s.code(other)
			require.Equal(t, http.StatusPaymentRequired, s.ask(http.MethodGet, entry, nil).Status, "the outer gate is closed")
			a := s.ask(http.MethodGet, url+"?pay_offer="+s.code(own), nil)
			require.Equal(t, http.StatusSeeOther, a.Status, a.Body)
			first := pass(a)
			a = s.ask(http.MethodGet, url, first)
			require.Equal(t, http.StatusPaymentRequired, a.Status, a.Body)
			s.requireNoContent(a)
			a = s.ask(http.MethodGet, entry, first)
			require.Equal(t, http.StatusSeeOther, a.Status, "the outer gate did not use the code of the inner one")
			require.Zero(t, s.app.runs(target))
			both := http.Header{"Cookie": {first.Get("Cookie") + "; " + pass(a).Get("Cookie")}}
			require.Equal(t, secret, s.ask(http.MethodGet, url, both).Body)

			paid := s.v2(forOther)
			paid["Cookie"] = first["Cookie"]
			a = s.ask(http.MethodGet, url, paid)
			require.Equal(t, secret, a.Body, "the inner gate is paid by the header")
			require.Equal(t, 1, s.facilitator.settles(forOther))
			require.Equal(t, 2, s.app.runs(target))
		})
	}
}
