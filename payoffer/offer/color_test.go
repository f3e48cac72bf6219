package offer

import (
	"image/color"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAccentIsAColorThatCanBeReadOnWhite(t *testing.T) {
	for text, want := range map[string]Color{"#0F766E": DefaultAccent, "#000000": "#000000", "6B21a8": "#6b21a8", "#1652c4": "#1652c4"} {
		c, err := ParseColor(text)
		require.NoError(t, err, text)
		require.Equal(t, want, c)
	}
	require.Equal(t, color.RGBA{0x0f, 0x76, 0x6e, 0xff}, DefaultAccent.RGBA())
	for text, says := range map[string]string{
		"teal": "is not a color", "#0f7": "is not a color", "#0f766e;}": "is not a color",
		"#ffcc00": "its contrast is 1.5, and 5 is needed", "#ffffff": "its contrast is 1.0", "#787878": "its contrast is 4.4",
	} {
		require.ErrorContains(t, errorOf(ParseColor(text)), says, text)
	}
}
