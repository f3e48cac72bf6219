package buyer

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// sells makes the seller quote the methods, and answer others with a status. It returns the requests.
func (s *seller) sells(status int, methods ...string) *[]string {
	asked := new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method+map[bool]string{true: " paid"}[r.Header.Get(x402.HeaderSignature) != ""])
		for _, method := range methods {
			if r.Method == method {
				s.ServeHTTP(w, r)
				return
			}
		}
		w.WriteHeader(status)
	}))
	s.t.Cleanup(server.Close)
	s.base = server.URL
	return asked
}

func declares(s *seller, method string) {
	s.quote["extensions"].(object)["bazaar"] = object{"info": object{"input": object{"type": "http", "method": method}}}
}

// A buyer without a method pays by the one that the seller quotes.
func TestQuoteDecidesHTTPMethod(t *testing.T) {
	for name, c := range map[string]struct {
		status   int
		methods  []string
		declared string
		want     []string
	}{
		"a gate":                       {0, []string{"GET", "POST"}, "", []string{"GET", "GET paid"}},
		"a page that refuses POST":     {405, []string{"GET"}, "", []string{"GET", "GET paid"}},
		"terms at GET":                 {200, []string{"POST"}, "", []string{"GET", "POST", "POST paid"}},
		"nothing at GET":               {404, []string{"POST"}, "", []string{"GET", "POST", "POST paid"}},
		"a declared POST":              {0, []string{"GET", "POST"}, "POST", []string{"GET", "POST", "POST paid"}},
		"a declared GET":               {405, []string{"GET"}, "GET", []string{"GET", "GET paid"}},
		"a method that is not payable": {0, []string{"GET", "POST"}, "DELETE", []string{"GET", "GET paid"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := openSeller(t)
			asked := s.sells(c.status, c.methods...)
			if c.declared != "" {
				declares(s, c.declared)
			}
			k := newCustomer(t, s)
			k.target.Method = ""
			p := k.open()
			k.sign(p)
			require.NoError(t, k.Settle(t.Context(), k.target, p))
			require.Equal(t, c.want, *asked)
		})
	}
}

func TestQuoteOfPaymentPageNamesAddress(t *testing.T) {
	s := openSeller(t)
	s.sells(http.StatusOK)
	c := newCustomer(t, s)
	for _, method := range []string{"", http.MethodPost} {
		for _, path := range []string{"/v1/pay", "/v1/invoice"} {
			_, err := c.Quote(t.Context(), must(NewTarget(method, s.base+path))(t))
			require.ErrorContains(t, err, "an offer of this plugin is paid at "+s.base+"/v1/sponsor")
		}
		_, err := c.Quote(t.Context(), must(NewTarget(method, s.base+"/v1/receipt/abc/enter"))(t))
		require.ErrorContains(t, err, "on an offer of this plugin it belongs to a receipt and costs nothing")
	}
}

func TestQuoteNeedsPayableHTTPMethod(t *testing.T) {
	for status, want := range map[int]struct {
		asked []string
		says  string
	}{
		200: {[]string{"GET", "POST"}, "does not ask for a payment (status 200)"},
		405: {[]string{"GET", "POST"}, "status 405 instead of 402"},
		302: {[]string{"GET"}, "redirects"},
		503: {[]string{"GET", "POST"}, "status 503 instead of 402"},
	} {
		s := openSeller(t)
		asked := s.sells(status)
		k := newCustomer(t, s)
		k.target.Method = ""
		_, err := k.Quote(t.Context(), k.target)
		require.ErrorContains(t, err, want.says)
		require.Equal(t, want.asked, *asked, status)
	}
}

// A payment that may be charged is found and sent again by its own method, whatever the seller quotes later.
//
//	fault                                          next run
//	crash before the payment is stored             nothing was sent: quotes and signs
//	crash after it is stored, or after it is sent  sends the same bytes by the same method
//	the seller declares another method             the same
//	the run names another method                   the same
func TestPurchaseKeepsHTTPMethod(t *testing.T) {
	for _, later := range []string{"", http.MethodGet, http.MethodPost} {
		s := openSeller(t)
		asked := s.sells(0, "GET", "POST")
		k := newCustomer(t, s)
		k.target.Method = ""
		p := k.open()
		k.sign(p) // and crashes
		declares(s, http.MethodPost)
		k.target.Method = later
		p = k.reopen(p)
		require.NotNil(t, p.Payment, later)
		require.NoError(t, k.Settle(t.Context(), k.target, p))
		require.Equal(t, []string{"GET", "GET paid"}, *asked, later)
	}
}

func TestPurchaseKeepsContent(t *testing.T) {
	s, k, p := opened(t)
	s.paid = []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("bought"))
	}}
	k.sign(p)
	require.NoError(t, k.Settle(t.Context(), k.target, p))
	for range 2 {
		require.Equal(t, "text/plain", p.ContentType)
		content := must(p.Content())(t)
		require.Equal(t, "bought", string(content))
		p = k.reopen(p)
	}
}

func TestSiteIsRegistrableDomain(t *testing.T) {
	for address, want := range map[string]string{
		"https://pay.example.org/a": "example.org", "https://EXAMPLE.org:8443": "example.org", "https://shop.example.co.uk": "example.co.uk",
		"https://alice.github.io": "alice.github.io", "https://bob.github.io": "bob.github.io", "https://co.uk": "co.uk",
		"http://pay.localhost:80": "localhost", "http://localhost:1": "localhost", "http://127.0.0.1:1": "127.0.0.1", "http://[::1]:1": "::1",
	} {
		require.Equal(t, want, site(must(url.Parse(address))(t)), address)
	}
}
