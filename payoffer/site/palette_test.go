package site

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// properties reads the colors of custom properties from a style.
func properties(t *testing.T, style string) map[string]offer.Color {
	t.Helper()
	found := make(map[string]offer.Color)
	for _, p := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{3}|#[0-9a-f]{6});`).FindAllStringSubmatch(style, -1) {
		value := p[2]
		if len(value) == 4 {
			value = regexp.MustCompile("[0-9a-f]").ReplaceAllString(value, "$0$0")
		}
		c, err := offer.ParseColor(value)
		require.NoError(t, err)
		found[p[1]] = c
	}
	return found
}

// colorsOf are the colors of the pages of an offer with an accent, as the pages have them: light and dark.
func colorsOf(t *testing.T, accent offer.Color) (light, dark map[string]offer.Color) {
	t.Helper()
	const darkMode = "(prefers-color-scheme: dark)"
	brandLight, brandDark, _ := strings.Cut(Brand(&offer.Offer{Terms: offer.Terms{Accent: accent}}), darkMode)
	styleLight, rest, _ := strings.Cut(Style, darkMode)
	styleDark, _, _ := strings.Cut(rest, "\n}\n")
	return properties(t, brandLight+styleLight), properties(t, brandDark+styleDark)
}

// textPairs are the texts of the pages and the grounds on which they stand.
var textPairs = map[string][]string{
	"ink": {"ground", "sheet", "side", "tint"}, "quiet": {"ground", "sheet", "side", "tint"}, "accent": {"ground", "sheet", "side", "tint"},
	"ok": {"sheet", "side", "ground"}, "warn": {"sheet", "warn-ground"}, "on-brand": {"brand"},
}

// lowest is the lowest contrast of the text pairs.
func lowest(t *testing.T, colors map[string]offer.Color, of ...string) (contrast float64, pair string) {
	t.Helper()
	contrast = 21
	for _, text := range of {
		for _, ground := range textPairs[text] {
			require.NotEmpty(t, colors[text], text)
			require.NotEmpty(t, colors[ground], ground)
			if c := colors[text].Contrast(colors[ground]); c < contrast {
				contrast, pair = c, fmt.Sprintf("%s %s on %s %s", text, colors[text], ground, colors[ground])
			}
		}
	}
	return contrast, pair
}

func TestAccentContrastOfAnyColor(t *testing.T) {
	random := rand.New(rand.NewPCG(42, 8403))
	accents := []string{"000000", "ffffff", "808080", "f59e0b", "ff5f5f", "ffff00", "0000ff", "00ff00", "ff0000"}
	for len(accents) < 1_000 {
		accents = append(accents, fmt.Sprintf("%06x", random.IntN(1<<24)))
	}
	all := []string{"ink", "quiet", "accent", "ok", "warn", "on-brand"}
	for _, accent := range accents {
		c, err := offer.ParseColor(accent)
		require.NoError(t, err)
		light, dark := colorsOf(t, c)
		require.Equal(t, c, light["brand"], "buttons have the seller's color")
		for mode, colors := range map[string]map[string]offer.Color{"light": light, "dark": dark} {
			contrast, pair := lowest(t, colors, all...)
			require.GreaterOrEqual(t, contrast, 4.5, "%s, %s: %s", accent, mode, pair)
		}
	}
}

func TestLightTextContrastIsEnhanced(t *testing.T) {
	light, _ := colorsOf(t, offer.DefaultAccent)
	contrast, pair := lowest(t, light, "ink", "quiet", "accent", "ok", "warn")
	require.GreaterOrEqual(t, contrast, 7.0, pair)
}
