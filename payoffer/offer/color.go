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

var colorForm = regexp.MustCompile(`^#?([0-9A-Fa-f]{6})$`)

// ParseColor parses a color. The hash may be missing, because it begins a comment in a Caddyfile.
func ParseColor(s string) (Color, error) {
	digits := colorForm.FindStringSubmatch(s)
	if digits == nil {
		return "", fmt.Errorf("%q is not a color; write six hexadecimal digits, such as 0f766e", s)
	}
	return Color("#" + strings.ToLower(digits[1])), nil
}

// RGBA is the color as the image packages use it.
func (c Color) RGBA() color.RGBA {
	n, _ := strconv.ParseUint(string(c[1:]), 16, 32) // ParseColor checked it
	return color.RGBA{uint8(n >> 16), uint8(n >> 8), uint8(n), 0xff}
}

// On is the color of text on c: black or white, whichever has more contrast. That is at least 4.5.
func (c Color) On() Color {
	if white := Color("#ffffff"); c.Contrast(white) >= 4.5 {
		return white
	}
	return "#000000"
}

// Contrast is the contrast ratio of two colors, from 1 to 21 (WCAG 2.2).
func (c Color) Contrast(other Color) float64 {
	one, two := c.luminance(), other.luminance()
	return (max(one, two) + 0.05) / (min(one, two) + 0.05)
}

func (c Color) luminance() float64 {
	rgb := c.RGBA()
	return 0.2126*Linear(rgb.R) + 0.7152*Linear(rgb.G) + 0.0722*Linear(rgb.B)
}

// Linear is the light of an sRGB channel, from 0 to 1.
func Linear(channel uint8) float64 {
	v := float64(channel) / 255
	if v <= 0.04045 {
		return v / 12.92
	}
	return math.Pow((v+0.055)/1.055, 2.4)
}
