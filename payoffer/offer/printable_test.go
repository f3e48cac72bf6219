package offer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATextContainsNoInvisibleCharacter(t *testing.T) {
	for _, text := range []string{"a\nb", "a\x00b", "a\u2028b", "a\u200bb", "a\u202eb", "\ufeffa", "a\u00adb", "a\U000e0041b"} {
		require.ErrorContains(t, CheckPrintable(text), "invisible character", "%+q", text)
	}
	for _, text := range []string{"", "Jane Doe", "Müller & Söhne", "L’école\u00a0: 42\u202f€", "株式会社", "עברית", "1\ufe0f\u20e3", "☃ Ünï"} {
		require.NoError(t, CheckPrintable(text), "%+q", text)
	}
}
