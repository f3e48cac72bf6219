package gate

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// chains are sites with two gates of the offer, one behind the other.
const chains = `
(gate) {
	pay_offer_gate {args[2]} {
		start http://{args[0]}.localhost:{PORT}{args[1]}
		{args[3:]}
	}
}
http://whole.localhost:{PORT} {
	import gate whole / * access 1h
	handle /a/* {
		import gate whole /a/ * access 48h
		reverse_proxy {APP}
	}
	reverse_proxy {APP}
}
http://nested.localhost:{PORT} {
	handle {
		import gate nested / * access 48h
		handle /a/* {
			import gate nested /a/ * charge first
			reverse_proxy {APP}
		}
	}
}
http://beside.localhost:{PORT} {
	route {
		import gate beside /a/ /a/* access 1h
		import gate beside / /* access 48h
		reverse_proxy {APP}
	}
}
`

// Who pays once enters all gates of an offer.
func TestOnePaymentOpensNestedGates(t *testing.T) {
	t.Parallel()
	s := openShop(t, chains)
	receipt := s.sell("shop", "http://localhost:"+s.port, "chains")
	for site, c := range map[string]struct {
		opens []string // the paths that a pass opens
		first bool     // a gate of the chain charges first
	}{
		"whole": {[]string{"/", "/a/"}, false}, "nested": {[]string{"/a/"}, true}, "beside": {[]string{"/", "/a/"}, false},
	} {
		t.Run(site, func(t *testing.T) {
			s, target := s.in(t), "/a/"+site
			url := s.url(site, target)
			opensAll := func(pass http.Header) {
				t.Helper()
				require.NotNil(t, pass)
				for _, path := range c.opens {
					require.Equal(t, secret, s.ask(http.MethodGet, s.url(site, path), pass).Body, path)
				}
			}
			p := s.sign(url)
			for n := 1; n <= 2; n++ { // the header is a pass, too
				a := s.ask(http.MethodGet, url, s.v2(p))
				require.Equal(t, http.StatusOK, a.Status, a.Body)
				require.Equal(t, secret, a.Body)
				require.Equal(t, 1, s.facilitator.settles(p))
				require.Equal(t, n, s.app.runs(target))
				if n == 1 {
					require.NotEmpty(t, confirmation(a))
					opensAll(pass(a))
				}
			}
			a := s.ask(http.MethodGet, url+"?pay_offer="+s.code(receipt), nil)
			require.Equal(t, http.StatusSeeOther, a.Status, a.Body)
			require.Equal(t, target, a.Header.Get("Location"))
			opensAll(pass(a))

			refused := s.sign(url)
			s.facilitator.fail(refused, refuses)
			runs := s.app.runs(target)
			a = s.ask(http.MethodGet, url, s.v2(refused))
			require.Equal(t, http.StatusServiceUnavailable, a.Status, a.Body)
			s.requireNoContent(a)
			require.Equal(t, runs+bit(!c.first), s.app.runs(target), "a gate that charges first lets nothing in before")

			missing := s.sign(url)
			s.app.on(target, answers(http.StatusNotFound))
			a = s.ask(http.MethodGet, url, s.v2(missing))
			require.Equal(t, http.StatusNotFound, a.Status, a.Body)
			require.Equal(t, bit(c.first), s.facilitator.settles(missing))
		})
	}
}
