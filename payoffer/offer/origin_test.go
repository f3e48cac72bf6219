package offer

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseOriginGivesOneFormOfAnOrigin(t *testing.T) {
	for in, want := range map[string]string{
		"https://pay.example.org":        "https://pay.example.org",
		"https://pay.example.org/":       "https://pay.example.org",
		"HTTPS://Pay.Example.ORG":        "https://pay.example.org",
		"https://pay.example.org:443":    "https://pay.example.org",
		"https://pay.example.org:443/":   "https://pay.example.org",
		"https://pay.example.org:80":     "https://pay.example.org:80",
		"https://pay.example.org:8443":   "https://pay.example.org:8443",
		"https://xn--mnchen-3ya.example": "https://xn--mnchen-3ya.example",
		"https://[2001:DB8::1]:443":      "https://[2001:db8::1]",
		"https://192.0.2.1":              "https://192.0.2.1",
		"http://localhost:8402":          "http://localhost:8402",
		"http://localhost:80":            "http://localhost",
		"http://localhost:443":           "http://localhost:443",
		"http://pay.localhost":           "http://pay.localhost",
		"http://127.0.0.1":               "http://127.0.0.1",
		"http://127.8.9.10:1":            "http://127.8.9.10:1",
		"http://[::1]:8402":              "http://[::1]:8402",
		"http://[::1]:80":                "http://[::1]",
		"https://" + longestName:         "https://" + longestName,
	} {
		got, err := ParseOrigin(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got)
	}
}

func TestParseOriginRefusesMoreThanAnOrigin(t *testing.T) {
	for _, in := range []string{
		"https://h.example/pay", "https://h.example//", "https://h.example/?", "https://h.example?", "https://h.example?a=b",
		"https://h.example#", "https://h.example/#a", "https://h.example/.", "https://h.example/%2F",
	} {
		require.ErrorContains(t, errorOf(ParseOrigin(in)), "more than an origin", in)
	}
}

// notURLs are refused as an origin and as a URL.
var notURLs = []string{
	"", "/", "h.example", "//h.example", "https:", "https:/", "https://", "https:///", "https:h.example", "https:/h.example",
	"ftp://h.example", "javascript:alert(1)", "data:text/html,x", "mailto:a@h.example", "ws://h.example",
	"https://:443", "https://h.example:", "https://h.example:0", "https://h.example:65536", "https://h.example:0443", "https://h.example:x",
	"https://user@h.example", "https://user:secret@h.example", "https://@h.example",
	"https://münchen.example", "https://m%C3%BCnchen.example", "https://a%25b.example", "https://a,b.example", "https://.example", "https://h..example",
	"https://h.example\\@evil.example", "https:\\\\h.example", "https://h.example/\r\nX: y", "https://h.example\n", " https://h.example",
	"https://h.example ", "https://h.example\x00", "https://h.example\x7f", "https://h.example/<script>", `https://h.example/"`, "https://h.example/`",
	"https://[::1", "https://[::1%25lo]", "https://[127.0.0.1]", "https://[h.example]", "https://[]", "https://::1",
	"http://h.example", "http://192.0.2.1", "http://0.0.0.0", "http://[::]", "http://localhost.example", "http://127.0.0.1.example",
	"http://127.1", "http://2130706433", "http://0x7f.0.0.1", "http://notlocalhost", "https://" + longestName + "h",
}

// longestName is as long as DNS allows.
var longestName = strings.Repeat(strings.Repeat("h", 62)+".", 4) + "h"

func TestWhatIsNoURLIsNoOriginEither(t *testing.T) {
	for _, in := range notURLs {
		require.Error(t, errorOf(ParseOrigin(in)), in)
		require.Error(t, errorOf(ParseURL(in)), in)
	}
}

func TestIsLoopback(t *testing.T) {
	for _, host := range []string{"localhost", "LOCALHOST", "localhost.", "a.b.localhost", "127.0.0.1", "127.255.255.254", "::1", "[::1]", "::ffff:127.0.0.1"} {
		require.True(t, IsLoopback(host), host)
	}
	for _, host := range []string{"", ".", "localhost.example", "xlocalhost", "128.0.0.1", "0.0.0.0", "::", "::2", "10.0.0.1", "127.0.0.1.example"} {
		require.False(t, IsLoopback(host), host)
	}
}

// did is the ABNF of a DID with the method "web" (DID Core section 3.1).
var did = regexp.MustCompile(`^did:web:([A-Za-z0-9._-]|%[0-9A-F]{2})+$`)

func TestDIDWebEscapesThePort(t *testing.T) {
	for origin, want := range map[string]string{
		"https://pay.example.org":      "did:web:pay.example.org",
		"https://pay.example.org:8443": "did:web:pay.example.org%3A8443",
		"http://localhost:8402":        "did:web:localhost%3A8402",
		"http://[::1]:8402":            "did:web:%5B%3A%3A1%5D%3A8402",
	} {
		require.Equal(t, want, DIDWeb(origin))
		require.Regexp(t, did, want)
	}
}
