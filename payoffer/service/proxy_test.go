package service

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestAProxyThatIsNotTrustedIsWarnedOfOnce(t *testing.T) {
	const public = "https://pay.example"
	for name, c := range map[string]struct {
		base, peer, counted string
		direct, warned      bool
	}{
		"a proxy on this machine":           {base: public, peer: "127.0.0.1:1234", counted: "127.0.0.1", warned: true},
		"one by IPv6":                       {base: public, peer: "[::1]:1234", counted: "::1", warned: true},
		"one in the network":                {base: public, peer: "10.1.2.3:1234", counted: "10.1.2.3", warned: true},
		"one in a network of IPv6":          {base: public, peer: "[fd00::1]:1234", counted: "fd00::1", warned: true},
		"one on the link":                   {base: public, peer: "[fe80::1%eth0]:1234", counted: "fe80::1", warned: true},
		"one that is trusted":               {base: public, peer: "127.0.0.1:1234", counted: "198.51.100.7"},
		"one whose buyer is in the network": {base: public, peer: "127.0.0.1:1234", counted: "10.1.2.3"},
		"a buyer who forwards himself":      {base: public, peer: "198.51.100.7:1234", counted: "198.51.100.7"},
		"nobody forwards":                   {base: public, peer: "127.0.0.1:1234", counted: "127.0.0.1", direct: true},
		"a socket":                          {base: public, peer: "@", counted: ""},
		"an offer on this machine":          {base: "http://localhost:8402", peer: "127.0.0.1:1234", counted: "127.0.0.1"},
		"an offer at a loopback address":    {base: "http://[::1]:8402", peer: "127.0.0.1:1234", counted: "127.0.0.1"},
		"an offer for the network":          {base: "http://192.168.1.5:8402", peer: "192.168.1.9:1234", counted: "192.168.1.9"},
		"an offer at a public address":      {base: "http://198.51.100.1", peer: "127.0.0.1:1234", counted: "127.0.0.1", warned: true},
	} {
		t.Run(name, func(t *testing.T) {
			var log lockedBuffer
			svc := &Service{
				Settings: &Settings{Offer: &offer.Offer{Terms: offer.Terms{BaseURL: c.base}}},
				logger:   slog.New(slog.NewTextHandler(&log, nil)),
			}
			clientIP := svc.clientIP(func(*http.Request) string { return c.counted })
			for range 3 {
				r := httptest.NewRequest(http.MethodPost, offer.PathSponsor, nil)
				r.RemoteAddr = c.peer
				if !c.direct {
					r.Header.Set("X-Forwarded-For", "198.51.100.7")
				}
				require.Equal(t, c.counted, clientIP(r))
			}
			want := 0
			if c.warned {
				want = 1
				require.Contains(t, log.String(), "servers { trusted_proxies static private_ranges }")
			}
			require.Equal(t, want, strings.Count(log.String(), "\n"))
		})
	}
}
