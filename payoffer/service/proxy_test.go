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
	for name, c := range map[string]struct {
		peer, counted, header string
		direct, warned        bool
	}{
		"a proxy on this machine":           {peer: "127.0.0.1:1234", counted: "127.0.0.1", warned: true},
		"one by IPv6":                       {peer: "[::1]:1234", counted: "::1", warned: true},
		"one in the network":                {peer: "10.1.2.3:1234", counted: "10.1.2.3", warned: true},
		"one that is trusted":               {peer: "127.0.0.1:1234", counted: "198.51.100.7"},
		"one whose buyer is in the network": {peer: "127.0.0.1:1234", counted: "10.1.2.3"},
		"a buyer who forwards himself":      {peer: "198.51.100.7:1234", counted: "198.51.100.7"},
		"nobody forwards":                   {peer: "127.0.0.1:1234", counted: "127.0.0.1", direct: true},
		"a socket":                          {peer: "@", counted: "", warned: true},
		"a socket that does not forward":    {peer: "@", counted: "@", direct: true, warned: true},
		"a socket that is trusted":          {peer: "@", counted: "198.51.100.7"},
		"a CDN":                             {peer: "203.0.113.9:1234", counted: "203.0.113.9", header: "CDN-Loop", warned: true},
		"a CDN with another name":           {peer: "203.0.113.9:1234", counted: "203.0.113.9", header: "Via", warned: true},
		"a CDN that is trusted":             {peer: "203.0.113.9:1234", counted: "198.51.100.7", header: "CDN-Loop"},
	} {
		t.Run(name, func(t *testing.T) {
			var log lockedBuffer
			svc := &Service{Settings: &Settings{Offer: &offer.Offer{Terms: offer.Terms{BaseURL: "https://pay.example"}}}, logger: slog.New(slog.NewTextHandler(&log, nil))}
			clientIP := svc.clientIP(func(*http.Request) string { return c.counted })
			for range 3 {
				r := httptest.NewRequest(http.MethodPost, offer.PathSponsor, nil)
				r.RemoteAddr = c.peer
				if !c.direct {
					r.Header.Set("X-Forwarded-For", "198.51.100.7")
				}
				if c.header != "" {
					r.Header.Set(c.header, "cdn.example")
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
