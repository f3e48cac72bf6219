package payoffer

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/site"
)

// A seller's stylesheet sets what the quickstart documents.
func TestStylePropertiesAreDocumented(t *testing.T) {
	style := site.Brand(&offer.Offer{Terms: offer.Terms{Accent: offer.DefaultAccent}}) + site.Style
	name := regexp.MustCompile("--[a-z-]+")
	used := slices.DeleteFunc(name.FindAllString(style, -1), func(s string) bool { return s == "--" })
	documented := regexp.MustCompile("`(--[a-z-]+)`").FindAllStringSubmatch(strings.Join(regexp.MustCompile(`(?m)^\| .*`).FindAllString(readSource(t, "docs/quickstart.md"), -1), ""), -1)
	require.NotEmpty(t, documented)
	for _, property := range documented {
		require.Contains(t, used, property[1])
	}
	for _, property := range used {
		require.Contains(t, documented, []string{"`" + property + "`", property})
	}
}
