package offer

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestTheServiceNameIsTheNameAsFarAsDirectoriesTakeIt(t *testing.T) {
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

func TestTheIconIsNamedWhereADirectoryCanAskForIt(t *testing.T) {
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

func TestTheResourceIsThePayableURL(t *testing.T) {
	o := &Offer{Terms: Terms{BaseURL: "https://pay.example.org", Name: "Café Example", Amount: 42_00, Tags: []string{"sponsorship", "open source"}}}
	require.Equal(t, Resource{
		URL: "https://pay.example.org/v1/sponsor", Description: "42 USD, one payment: Café Example", MimeType: "application/json",
		ServiceName: "Example", Tags: []string{"sponsorship", "open source"}, IconURL: o.URL(PathIcon),
	}, o.Resource())
}

func TestAGateIsPaidAtItsStartWithoutTheQuery(t *testing.T) {
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
