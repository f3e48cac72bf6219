package offer

import (
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// What nobody sees is in no text, wherever it stands.
func TestATextHoldsNothingThatIsNotSeen(t *testing.T) {
	for r := range unicode.MaxRune + 1 {
		if r >= 0xd800 && r < 0xe000 {
			continue // no text in UTF-8 has them
		}
		err := CheckPrintable("a" + string(r) + "b")
		switch {
		case unicode.IsControl(r), unicode.In(r, unicode.Zl, unicode.Zp, unicode.Cf, unicode.Co, unicode.Bidi_Control, unicode.Noncharacter_Code_Point,
			unicode.Other_Default_Ignorable_Code_Point):
			require.ErrorContains(t, err, "is not seen", "%U", r)
		case unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S, unicode.Zs) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
			require.NoError(t, err, "%U", r)
		}
	}
	for _, text := range []string{
		"\u200dname", "name\u200d", "na\u200cme", "na\u200dme", "na\u200bme", "na\u2060me", "\ufeffname", "na\u00adme", "имя\u200d", "名\u200c前",
		"می\u200c\u200cخواهم", "\U0001f469\u200dx", "\U0001f469\u200c\U0001f680", "\U0001f469\u200d", "\u200d\U0001f680", "\U0001f469\u200d\u200d\U0001f680",
		"\ufe0fa", " \ufe0f", "a\ufe0f\ufe0f", "a\U000e0100\U000e0101", "\U0001f3f4\U000e0067\U000e0062\U000e007f", "a\u3164b", "a\u034fb",
	} {
		require.ErrorContains(t, CheckPrintable(text), "is not seen", "%+q", text)
	}
}

// Names and emoji are written as their writers write them.
func TestATextHoldsWhatScriptsAndEmojiNeed(t *testing.T) {
	for _, text := range []string{
		"", "Jane Doe", "Müller & Söhne", "Mu\u0308ller", "L’école\u00a0: 42\u202f€", "株式会社", "葛\U000e0100城", "Ελληνικά", "עברית", "عربي",
		"می\u200cخواهم", "خانهٔ\u200cمن", "नमस्\u200dते", "क्\u200cष", "ശ്രീമാന്\u200d ജോസ്", "ක්\u200dෂ", "ᠮᠣᠩᠭᠣᠯ\u180b",
		"\U0001f469\u200d\U0001f680", "\U0001f469\U0001f3fd\u200d\U0001f4bb", "\u2764\ufe0f\u200d\U0001f525", "\U0001f642\u200d\u2194\ufe0f", "\U0001f3f3\ufe0f\u200d\U0001f308",
		"1\ufe0f\u20e3", "\U0001f1e9\U0001f1ea", "☃ Ünï",
	} {
		require.NoError(t, CheckPrintable(text), "%+q", text)
	}
}
