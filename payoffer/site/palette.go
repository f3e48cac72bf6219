package site

import (
	"fmt"
	"math"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Brand is the style of the offer's accent: the custom properties that the style of the pages uses. A page has it
// before its style.
func Brand(o *offer.Offer) string {
	return "@media screen { :root { " + palette(o.Accent, false) + " } }\n" +
		"@media screen and (prefers-color-scheme: dark) { :root { " + palette(o.Accent, true) + " } }\n"
}

// linkContrast is that of links and of what else has the accent on the grounds of the pages (WCAG 2.2, level AAA).
const linkContrast = 7

// palette returns the colors of buttons (brand), of the text on them, of links (accent), and of the grounds with a
// little of the brand. Links are as dark or as light as their grounds require. On dark pages buttons are light.
func palette(brand offer.Color, dark bool) string {
	side, sheet, share, step := offer.Color("#f5f5f4"), offer.Color("#ffffff"), 0.05, -0.01
	lightness, _, _ := oklab(brand)
	if dark {
		side, sheet, share, step = "#181716", "#1d1b1a", 0.1, 0.01
		lightness = max(lightness, 0.72)
		brand = withLightness(brand, lightness)
	}
	side, tint := mix(brand, side, share), mix(brand, sheet, share)
	accent := brand
	for ; min(accent.Contrast(side), accent.Contrast(tint), accent.Contrast(sheet)) < linkContrast; lightness += step {
		accent = withLightness(brand, lightness)
	}
	return fmt.Sprintf("--brand: %s; --on-brand: %s; --accent: %s; --side: %s; --tint: %s;", brand, brand.On(), accent, side, tint)
}

// mix is a share of one color in another, as color-mix(in srgb) computes it.
func mix(c, ground offer.Color, share float64) offer.Color {
	one, two := c.RGBA(), ground.RGBA()
	channel := func(x, y uint8) int { return int(math.Round(share*float64(x) + (1-share)*float64(y))) }
	return offer.Color(fmt.Sprintf("#%02x%02x%02x", channel(one.R, two.R), channel(one.G, two.G), channel(one.B, two.B)))
}

// withLightness is a color of the same hue with another lightness from 0 to 1, and with as much of its chroma as
// sRGB has.
func withLightness(c offer.Color, lightness float64) offer.Color {
	_, a, b := oklab(c)
	for chroma := 1.0; ; chroma -= 0.05 {
		if found, ok := fromOKLab(min(max(lightness, 0), 1), a*chroma, b*chroma); ok || chroma <= 0 {
			return found
		}
	}
}

// oklab is a color in OKLab (CSS Color 4, section 9.3).
func oklab(c offer.Color) (lightness, a, b float64) {
	rgb := c.RGBA()
	red, green, blue := offer.Linear(rgb.R), offer.Linear(rgb.G), offer.Linear(rgb.B)
	l := math.Cbrt(0.4122214708*red + 0.5363325363*green + 0.0514459929*blue)
	m := math.Cbrt(0.2119034982*red + 0.6806995451*green + 0.1073969566*blue)
	s := math.Cbrt(0.0883024619*red + 0.2817188376*green + 0.6299787005*blue)
	return 0.2104542553*l + 0.7936177850*m - 0.0040720468*s, 1.9779984951*l - 2.4285922050*m + 0.4505937099*s, 0.0259040371*l + 0.7827717662*m - 0.8086757660*s
}

// fromOKLab reports whether sRGB has the color. If not, the result is the nearest channel values.
func fromOKLab(lightness, a, b float64) (c offer.Color, ok bool) {
	l := math.Pow(lightness+0.3963377774*a+0.2158037573*b, 3)
	m := math.Pow(lightness-0.1055613458*a-0.0638541728*b, 3)
	s := math.Pow(lightness-0.0894841775*a-1.2914855480*b, 3)
	ok, c = true, "#"
	for _, v := range []float64{4.0767416621*l - 3.3077115913*m + 0.2309699292*s, -1.2684380046*l + 2.6097574011*m - 0.3413193965*s, -0.0041960863*l - 0.7034186147*m + 1.7076147010*s} {
		ok = ok && v > -0.001 && v < 1.001
		if v = min(max(v, 0), 1); v <= 0.0031308 {
			v *= 12.92
		} else {
			v = 1.055*math.Pow(v, 1/2.4) - 0.055
		}
		c += offer.Color(fmt.Sprintf("%02x", int(math.Round(v*255))))
	}
	return c, ok
}
