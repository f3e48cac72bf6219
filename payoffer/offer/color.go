package offer

import (
	"fmt"
	"image/color"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Color is an opaque sRGB color as "#rrggbb" in lower case.
type Color string

// DefaultAccent is the color of buttons and links.
const DefaultAccent Color = "#0f766e"

// leastContrast is that of white text on the accent, with room for grounds that are not
// quite white. WCAG 2.2 (1.4.3) asks for 4.5.
const leastContrast = 5

var colorForm = regexp.MustCompile(`^#?([0-9A-Fa-f]{6})$`)

// ParseColor parses a color that can be read on white. The hash may be missing, because it
// begins a comment in a Caddyfile.
func ParseColor(s string) (Color, error) {
	digits := colorForm.FindStringSubmatch(s)
	if digits == nil {
		return "", fmt.Errorf("%q is not a color; write six hexadecimal digits, such as 0f766e", s)
	}
	c := Color("#" + strings.ToLower(digits[1]))
	if contrast := c.contrast(); contrast < leastContrast {
		return "", fmt.Errorf("%s cannot be read on white: its contrast is %.1f, and %d is needed; choose a darker color, such as 0f766e",
			c, contrast, leastContrast)
	}
	return c, nil
}

// RGBA is the color as the image packages use it.
func (c Color) RGBA() color.RGBA {
	n, _ := strconv.ParseUint(string(c[1:]), 16, 32) // ParseColor checked it
	return color.RGBA{uint8(n >> 16), uint8(n >> 8), uint8(n), 0xff}
}

// contrast is the contrast ratio to white (WCAG 2.2, relative luminance).
func (c Color) contrast() float64 {
	linear := func(channel uint8) float64 {
		v := float64(channel) / 255
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	rgb := c.RGBA()
	return 1.05 / (0.2126*linear(rgb.R) + 0.7152*linear(rgb.G) + 0.0722*linear(rgb.B) + 0.05)
}
