package offer

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestParseOriginNormalizes(t *testing.T) {
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

func TestParseOriginRefusesPathAndQuery(t *testing.T) {
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

func TestParseOriginRefusesInvalidURL(t *testing.T) {
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

func TestDIDWebEscapesPort(t *testing.T) {
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

func TestServiceName(t *testing.T) {
	for name, want := range map[string]string{
		"Example Offer":                     "Example Offer",
		"Example\u2028 \tOffer ":            "Example Offer",
		"a":                                 "a",
		strings.Repeat("n", 32):             strings.Repeat("n", 32),
		strings.Repeat("n", 33):             "",
		"An Offer of Thirty-three Letters!": "An Offer of Thirty-three",
		"An Offer of Thirty-two Letters!!":  "An Offer of Thirty-two Letters!!",
		"Example – Offer 🚀":                 "Example Offer",
		"<Example> & \"Offer\"":             "<Example> & \"Offer\"",
		"Café Example":                      "Example",
		"Cafe\u0301 Example":                "Example",
		"Müller":                            "",
		"日本語":                               "",
		"🚀 – …":                             "",
		"":                                  "",
		"٣ Coffees":                         "Coffees",
		"bad\xffbyte":                       "",
	} {
		require.Equal(t, want, serviceName(name), "%q", name)
	}
}

func FuzzServiceName(f *testing.F) {
	f.Add("Example Offer")
	f.Add("Müller & Söhne 日本 " + strings.Repeat("x", 40))
	listed := regexp.MustCompile(`^([ -~]{1,32})?$`)
	f.Fuzz(func(t *testing.T, name string) {
		got := serviceName(name)
		require.Regexp(t, listed, got)
		require.Equal(t, strings.TrimSpace(got), got)
		if utf8.RuneCountInString(name) <= maxServiceName && listed.MatchString(name) {
			require.Equal(t, strings.Join(strings.Fields(name), " "), got, "nothing is lost of what may stand")
		}
	})
}

func TestResourceIconNeedsPublicURL(t *testing.T) {
	for base, listed := range map[string]bool{
		"https://pay.example.org": true, "https://pay.example.org:8443": true, "http://pay.example.org": true, "https://1.example": true,
		"http://localhost": false, "http://localhost:2015": false, "http://pay.localhost": false, "https://127.0.0.1": false, "http://[::1]:2015": false,
		"https://192.0.2.7": false, "https://192.0.2.7:8443": false, "https://[2001:db8::1]": false,
	} {
		o := &Offer{Terms: Terms{BaseURL: base}}
		want := ""
		if listed {
			want = base + "/favicon.svg"
		}
		require.Equal(t, want, o.Resource().IconURL, base)
	}
}

func TestResourceIsSponsorURL(t *testing.T) {
	o := &Offer{Terms: Terms{BaseURL: "https://pay.example.org", Name: "Café Example", Amount: 42_00, Tags: []string{"sponsorship", "open source"}}}
	require.Equal(t, Resource{
		URL: "https://pay.example.org/v1/sponsor", Description: "42 USD, one payment: Café Example", MimeType: "application/json",
		ServiceName: "Example", Tags: []string{"sponsorship", "open source"}, IconURL: o.URL(PathIcon),
	}, o.Resource())
}

func TestResourceAtGateOmitsQuery(t *testing.T) {
	o := &Offer{Terms: Terms{BaseURL: "https://pay.example.org", Name: "Example", Amount: 42_00}}
	for start, want := range map[string]string{
		"https://shop.example": "https://shop.example/", "https://Shop.example:443/a%2Fb/?c=d": "https://shop.example/a%2Fb/",
		"http://localhost:8080/é {x}": "http://localhost:8080/%C3%A9%20%7Bx%7D",
	} {
		g := Gate{Start: start}
		require.Equal(t, want, o.ResourceAt(g.Origin()+g.Path()).URL)
	}
	require.Equal(t, o.Resource().Description, o.ResourceAt("https://shop.example/").Description)
	require.Empty(t, o.ResourceAt("https://shop.example/").MimeType, "any content may be behind a gate")
}

// Pages list all methods below the name.
func TestCardNameFromPaymentMethods(t *testing.T) {
	for _, c := range []struct {
		want    Phrase
		methods []string
	}{
		{Phrase{Key: "rail.card.card"}, nil},
		{Phrase{Key: "rail.card.card"}, []string{"link", "klarna", "affirm", "card"}},
		{Literal("Afterpay / Clearpay"), []string{"us_bank_account", "afterpay_clearpay"}},
		{Literal("Cash App Pay"), []string{"twint", "us_bank_account", "affirm", "cashapp"}},
	} {
		card, err := NewCard("https://checkout.example/pay", c.methods, 42_00)
		require.NoError(t, err)
		require.Equal(t, c.want, card.Face().Name)
		require.Equal(t, Phrase{Key: "rail.card.way"}, card.Face().Way, "which of them was chosen is not known")
		if c.methods != nil {
			require.Equal(t, c.methods, card.PaymentMethods, "what programs read keeps its order")
		}
	}
}

// A name that the host does not prove would be a promise that nobody gave.
func TestCardProcessorNameNeedsKnownHost(t *testing.T) {
	for address, want := range map[string]string{
		"https://buy.stripe.com/abc":                 "Stripe (buy.stripe.com)",
		"https://checkout.stripe.com/c/pay":          "Stripe (checkout.stripe.com)",
		"https://pay.example.org/stripe.com":         "pay.example.org",
		"https://stripe.com.example.org/":            "stripe.com.example.org",
		"https://notstripe.com/":                     "notstripe.com",
		"https://buy.stripe.com.example/?stripe.com": "buy.stripe.com.example",
	} {
		card := must(NewCard(address, nil, 42_00))(t)
		shop := must(NewStorefront("shop", address, 42_00))(t)
		for _, face := range []Face{card.Face(), shop.Face()} {
			require.Equal(t, Phrase{Key: "rail.checkout", With: With{"host": want}}, face.Note)
		}
	}
}

func TestCardTestCheckoutURL(t *testing.T) {
	for address, test := range map[string]bool{
		"https://buy.stripe.com/test_1":                            true,
		"https://Buy.Stripe.com/test_1?prefilled_email=a":          true,
		"https://checkout.stripe.com/c/pay/cs_test_1":              true,
		"https://www.sandbox.paypal.com/ncp/payment/1":             true,
		"https://sandbox.square.link/u/1":                          true,
		"https://buy.stripe.com./TEST_1":                           true,
		"https://pay.example.org/b/test_1":                         true,
		"https://buy.stripe.com/1":                                 false,
		"https://buy.stripe.com/latest_1":                          false,
		"https://checkout.stripe.com/c/pay/cs_live_1":              false,
		"https://shop.example.org/test_1":                          false,
		"https://notstripe.com/test_1":                             false,
		"https://buy.stripe.com/1?from=/test_1":                    false,
		"https://www.paypal.com/ncp/payment/1?next=sandbox.paypal": false,
	} {
		card := must(NewCard(address, nil, 42_00))(t)
		require.Equal(t, test, card.Test(), address)
	}
}
